#include <lab/engine/one_file.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace kl {
namespace {

constexpr size_t kShownLines = 40;

fs::path real_path(const fs::path& path) {
  std::error_code code;
  const fs::path result = fs::weakly_canonical(path, code);
  return code ? path : result;
}

// The prerequisites of a make rule, as compiler and assembler write them.
std::vector<fs::path> prerequisites(const std::string& rule) {
  std::vector<fs::path> files;
  std::string name;
  const auto finish = [&] {
    if (!name.empty()) files.emplace_back(name);
    name.clear();
  };
  const size_t colon = rule.find(": ");
  for (size_t i = colon == std::string::npos ? 0 : colon + 1; i < rule.size(); ++i) {
    const char c = rule[i];
    const char next = i + 1 < rule.size() ? rule[i + 1] : '\0';
    if (c == '\\' && next == '\n') continue;
    if (c == '\\' && (next == ' ' || next == '#' || next == '\\')) name += rule[++i];
    else if (c == '$' && next == '$') name += rule[++i];
    else if (c == ' ' || c == '\n' || c == '\t') finish();
    else name += c;
  }
  finish();
  return files;
}

bool is_within(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

}  // namespace

std::optional<fs::path> read_from_outside(const fs::path& rule_file, const fs::path& work,
                                          const std::vector<fs::path>& folders) {
  const auto rule = read_file(rule_file);
  if (!rule.ok()) return rule_file;
  for (const fs::path& file : prerequisites(*rule)) {
    // By its name too: an include folder may hold links to what it offers.
    const fs::path real = real_path(work / file), named = (work / file).lexically_normal();
    const auto holds = [&](const fs::path& folder) {
      return is_within(real, real_path(folder)) || is_within(named, folder.lexically_normal());
    };
    if (std::none_of(folders.begin(), folders.end(), holds)) return file;
  }
  return std::nullopt;
}

Error reads_another_file(const std::string& shown, const fs::path& outside) {
  return make_error(Status::build_failed,
                    fmt::format("{} reads {} while it is compiled: a kernel is one file, and no hash "
                                "would cover another", shown, outside.string()),
                    "paste what it needs into the kernel file");
}

std::string trimmed_message(const std::string& text) {
  std::istringstream lines(text);
  std::string line, result;
  size_t count = 0;
  while (std::getline(lines, line))
    if (++count <= kShownLines) result += line + "\n";
  if (count > kShownLines) result += fmt::format("… {} more lines\n", count - kShownLines);
  return result;
}

}  // namespace kl
