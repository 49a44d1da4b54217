#include <lab/integration/line_changes.hpp>

#include <algorithm>
#include <vector>

namespace kl {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

LineChanges line_changes(std::string_view before, std::string_view after) {
  const auto a = lines_of(before), b = lines_of(after);
  std::vector<int64_t> above(b.size() + 1), row(b.size() + 1);
  for (const auto& line : a) {
    for (size_t j = 0; j < b.size(); ++j)
      row[j + 1] = line == b[j] ? above[j] + 1 : std::max(above[j + 1], row[j]);
    std::swap(above, row);
  }
  const int64_t shared = above.back();
  return {static_cast<int64_t>(b.size()) - shared, static_cast<int64_t>(a.size()) - shared};
}

}  // namespace kl
