#include <lab/target/target.hpp>

#include <lab/core/files.hpp>
#include <lab/core/near.hpp>

#include <algorithm>

namespace kl {

std::string_view to_string(MathsClass maths) {
  switch (maths) {
    case MathsClass::exact_reorder: return "exact-reorder";
    case MathsClass::reduced_precision: return "reduced-precision";
    case MathsClass::approximate: return "approximate";
  }
  return "";
}

std::string_view to_string(OutputMode mode) {
  switch (mode) {
    case OutputMode::write: return "write";
    case OutputMode::accumulate: return "accumulate";
    case OutputMode::inout: return "inout";
  }
  return "";
}

std::optional<fs::path> Target::champion(const Engine& engine) const {
  for (const auto& file : engine.kernel_files())
    if (fs::exists(folder / file)) return folder / file;
  return std::nullopt;
}

Error no_champion(const Target& target, const Engine& engine) {
  const auto files = engine.kernel_files();
  const std::string remedy =
      "choose a target that `kernel-lab list-targets` calls starter-ready, or another engine";
  return make_error(Status::starter_unavailable,
                    "target " + target.key + " has no kernel for engine " + std::string(engine.name()),
                    files.empty() ? remedy
                                  : "write " + (target.folder / files.back()).string() +
                                        " (a copy of its reference will do), or " + remedy);
}

Target Target::for_engine(std::string_view engine) const {
  Target target = *this;
  const auto own = engine_dtypes.find(std::string(engine));
  if (own == engine_dtypes.end() || own->second == dtypes) return target;
  target.dtypes = own->second;
  for (auto* list : {&target.quick, &target.full}) {
    std::vector<CaseShape> shapes;
    for (const CaseShape& shape : *list)
      if (shape.dtype == dtypes.front())
        for (const std::string& dtype : target.dtypes) shapes.push_back({shape.axes, dtype});
    *list = std::move(shapes);
  }
  return target;
}

fs::path Target::reference(const Engine& engine) const {
  const auto files = engine.reference_files();
  for (const auto& file : files)
    if (fs::exists(folder / file)) return folder / file;
  return files.empty() ? reference() : folder / files.back();
}

std::string Target::status(const Engine& engine) const {
  return champion(engine).has_value() ? "starter-ready" : "no-starter";
}

Catalogue Catalogue::search(const std::vector<fs::path>& path) {
  Catalogue catalogue;
  std::vector<std::string> seen;
  for (const auto& root : path) {
    std::vector<fs::path> folders;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(root, code))
      if (fs::exists(entry.path() / "spec.toml", code)) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    for (const auto& folder : folders) {
      const std::string name = folder.filename().string();
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
      seen.push_back(name);
      auto target = read_target(folder);
      if (target.ok()) {
        catalogue.targets_.push_back(std::move(*target));
      } else {
        catalogue.broken_.push_back(target.error());
        catalogue.broken_keys_.push_back(name);
      }
    }
  }
  std::sort(catalogue.targets_.begin(), catalogue.targets_.end(),
            [](const Target& a, const Target& b) { return a.key < b.key; });
  return catalogue;
}

Result<Target> Catalogue::find(std::string_view key) const {
  std::vector<std::string> names;
  for (const auto& target : targets_) {
    names.push_back(target.key);
    names.insert(names.end(), target.aliases.begin(), target.aliases.end());
    if (target.key == key ||
        std::find(target.aliases.begin(), target.aliases.end(), key) != target.aliases.end())
      return target;
  }
  for (size_t i = 0; i < broken_keys_.size(); ++i)
    if (broken_keys_[i] == key) return broken_[i];
  return make_error(Status::unsupported_target, "unknown target '" + std::string(key) + "'",
                    suggestion(key, names));
}

}  // namespace kl
