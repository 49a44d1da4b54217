#include <lab/core/near.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace kl {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::vector<std::string> near_matches(std::string_view word, std::span<const std::string> candidates,
                                      size_t limit) {
  std::vector<std::pair<size_t, std::string>> scored;
  for (const auto& candidate : candidates) {
    size_t distance = edit_distance(word, candidate);
    if (word.size() >= 3 && (candidate.starts_with(word) || candidate.find(word) != std::string::npos))
      distance = std::min<size_t>(distance, 1);
    if (distance <= std::max<size_t>(2, candidate.size() / 3)) scored.emplace_back(distance, candidate);
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> result;
  for (const auto& [distance, candidate] : scored)
    if (result.size() < limit) result.push_back(candidate);
  return result;
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  const auto near = near_matches(word, candidates);
  if (!near.empty()) return fmt::format("did you mean {}?", fmt::join(near, " or "));
  return fmt::format("known: {}", fmt::join(candidates, ", "));
}

}  // namespace kl
