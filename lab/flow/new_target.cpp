#include <lab/flow/new_target.hpp>

#include <lab/core/files.hpp>
#include <lab/flow/placeholder.hpp>
#include <lab/flow/signature.hpp>
#include <lab/target/spec_text.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>

namespace kl {
namespace {

using Files = std::map<std::string, std::string>;

Error wrong(std::string what, std::string remedy) {
  return make_error(Status::usage, std::move(what), std::move(remedy));
}

Outcome check_key(const std::string& key, const Catalogue& catalogue) {
  const auto good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (key.empty() || key.size() > 64 || key[0] < 'a' || key[0] > 'z' ||
      !std::all_of(key.begin(), key.end(), good))
    return wrong(fmt::format("'{}' cannot be the key of a target", key),
                 "small letters, digits and _, a letter first, 64 at most: --key swiglu");
  if (const auto found = catalogue.find(key); found.ok())
    return wrong(fmt::format("key '{}' is taken: {} is {}", key, found->key == key ? "it" : "an alias of it",
                             found->folder.string()),
                 "choose another --key");
  return {};
}

// The nearest folder above that exists decides whether this one can be made.
Outcome check_folder(const fs::path& targets, const fs::path& folder) {
  std::error_code code;
  if (fs::exists(fs::symlink_status(folder, code)))
    return wrong(fmt::format("{} exists already", folder.string()),
                 "choose another --key or --dir, or remove it");
  fs::path above = fs::absolute(targets, code);
  while (!fs::exists(above, code) && above.has_relative_path()) above = above.parent_path();
  if (!fs::is_directory(above, code))
    return wrong(fmt::format("{} is not a folder", above.string()), "give --dir a folder, or a name that is free");
  if (::access(above.c_str(), W_OK | X_OK) != 0)
    return make_error(Status::no_permission, fmt::format("{} cannot be written: {}", above.string(), std::strerror(errno)),
                      "give --dir a folder of your own, or change its permissions (chmod u+wx)");
  return {};
}

constexpr std::string_view kReferenceHead =
    "// The plain kernel, obviously right. EDIT: the loops of `run`; `accepts` when the shapes differ.\n";
constexpr std::string_view kKernelHead =
    "// The champion, and what `kernel-lab init` hands out. It starts as the plain kernel: when reference.cpp is right,\n"
    "// copy it here once more. A faster one takes its place by `kernel-lab promote`.\n";

std::string readme(const Target& target, const std::string& origin) {
  return fmt::format(R"(# {key}

{title}

    {formula}

{origin} Edit, in this order:

1. `spec.toml`: title, formula, tensors with their axes, scalars, cases.
2. `oracle.cpp`: the mathematics in double precision, forward and backward. It judges every kernel.
3. `reference.cpp`: the plain kernel; then `cp reference.cpp kernel.cpp`, which is what workspaces start from.

With DIR the folder this one lies in:

```
kernel-lab --targets DIR list-targets
kernel-lab --targets DIR init --target {key} --workspace mine
kernel-lab --targets DIR verify --workspace mine --quick
```

A workspace keeps the kernel it was made with: copy `reference.cpp` there, or make a new one, after an edit here.
)",
                     fmt::arg("key", target.key), fmt::arg("title", target.title),
                     fmt::arg("formula", target.formula), fmt::arg("origin", origin));
}

Result<Files> files_like(const std::string& key, const Target& model) {
  Target target = model;
  target.key = key;
  target.aliases.clear();
  target.seam.clear();
  Files files;
  const auto renamed = [&](const fs::path& path) -> Result<std::string> {
    KL_TRY(const std::string text, read_file(path));
    return with_renamed_literals(text, model.key, key);
  };
  KL_TRY(const std::string oracle, renamed(model.oracle()));
  files["oracle.cpp"] = "// EDIT: the mathematics, and the bytes and operations of an ideal kernel.\n" + oracle;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(model.folder, code)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("reference.")) continue;
    KL_TRY(const std::string text, renamed(entry.path()));
    files[name] = std::string(kReferenceHead) + text;
    files["kernel" + name.substr(std::strlen("reference"))] = std::string(kKernelHead) + text;
  }
  files["spec.toml"] = "# EDIT: a copy of " + model.key + "'s, without its aliases and its place in the trainer.\n" +
                       spec_text(target);
  files["README.md"] = readme(target, fmt::format("Copied from {}.", model.key));
  return files;
}

Result<Files> files_from(const std::string& key, const std::string& signature) {
  Target target;
  target.key = key;
  KL_TRY(target.operations, operations_of_signature(signature));
  target.formula = signature;
  target.dtypes = {"f32"};
  fill_terms(target);
  fill_cases(target);
  target.title = fmt::format("PLACEHOLDER: computes {}.", placeholder_formula(target));
  const std::string kernel = placeholder_kernel(target);
  Files files;
  files["spec.toml"] = "# EDIT: title and formula, `terms` of the outputs, cases; `dtype` and `kind` of tensors that are not real numbers.\n" +
                       spec_text(target);
  files["oracle.cpp"] = placeholder_oracle(target);
  files["reference.cpp"] = std::string(kReferenceHead) + kernel;
  files["kernel.cpp"] = std::string(kKernelHead) + kernel;
  files["README.md"] = readme(target, fmt::format("Made from the signature `{}`; what it computes is a PLACEHOLDER.", signature));
  return files;
}

// The spec last: a folder without it is no target.
Outcome write_files(const fs::path& folder, const Files& files) {
  for (const auto& [name, text] : files)
    if (name != "spec.toml") KL_CHECK(write_file_atomic(folder / name, text));
  return write_file_atomic(folder / "spec.toml", files.at("spec.toml"));
}

}  // namespace

std::string with_renamed_literals(std::string_view text, std::string_view from, std::string_view to) {
  const auto word_char = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::string result;
  bool quoted = false;
  for (size_t i = 0; i < text.size();) {
    const bool starts_word = i == 0 || !word_char(text[i - 1]);
    if (quoted && starts_word && text.substr(i).starts_with(from) &&
        (i + from.size() == text.size() || !word_char(text[i + from.size()]))) {
      result += to;
      i += from.size();
      continue;
    }
    const bool escaped = i > 0 && text[i - 1] == '\\';
    if (text[i] == '\n') quoted = false;
    if (text[i] == '"' && !escaped) quoted = !quoted;
    result += text[i++];
  }
  return result;
}

Result<NewTargetRecord> make_target(const NewTargetRequest& request, const Catalogue& catalogue) {
  if (request.like.empty() == request.signature.empty())
    return wrong(request.like.empty() ? "neither --like nor --from was given" : "--like and --from were both given",
                 "--like TARGET copies a target, --from \"y[N,C] = f(x[N,C], w[C])\" starts from a signature");
  KL_CHECK(check_key(request.key, catalogue));
  const fs::path folder = request.folder / request.key;
  KL_CHECK(check_folder(request.folder, folder));
  Files files;
  if (request.like.empty()) {
    KL_TRY(files, files_from(request.key, request.signature));
  } else {
    KL_TRY(const Target model, catalogue.find(request.like));
    KL_TRY(files, files_like(request.key, model));
  }
  auto written = write_files(folder, files);
  const auto read_back = written.ok() ? read_target(folder) : Result<Target>(written.error());
  if (!read_back.ok()) {
    std::error_code code;
    fs::remove_all(folder, code);
    return read_back.error();
  }
  NewTargetRecord record = new_record<NewTargetRecord>();
  record.target = request.key;
  record.status = Status::ok;
  record.folder = folder.string();
  record.like = request.like;
  record.signature = request.signature;
  for (const auto& [name, text] : files) record.files.push_back(name);
  return record;
}

}  // namespace kl
