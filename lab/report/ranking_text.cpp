#include <lab/report/ranking_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace kl {

std::string ranking_text(const std::vector<RankedCandidate>& candidates, const std::vector<NotRanked>& not_ranked, const Style& style) {
  Table table({">rank", "target", ">share", ">floor", ">gain at most", "relevance", "starter", "stands at", "known by"});
  for (const auto& c : candidates) {
    const bool floor = c.floor_unknown.empty() && c.share > 0;
    table.row({std::to_string(c.rank), c.target, share_text(c.share, 2), floor ? share_text(1 - (c.gain_bound - c.credited_share) / c.share) : "unknown",
               share_text(c.gain_bound, 2), c.relevance, c.starter, c.answer, c.share_from});
  }
  std::string text = candidates.empty() ? "no target can be ranked\n" : table.text(style);
  std::map<std::string, std::vector<std::string>> moved;
  for (const auto& c : candidates)
    for (const auto& reason : c.moved_by) moved[reason].push_back(c.target);
  for (const auto& c : candidates)
    if (c.credited_share > 0) text += fmt::format("  credited: {} with {}: {}\n", c.target, share_text(c.credited_share, 2), c.credited_for);
  for (const auto& [reason, targets] : moved) text += fmt::format("  moved: {}: {}\n", reason, fmt::join(targets, ", "));
  std::vector<std::string> names;
  for (const auto& n : not_ranked) names.push_back(n.target);
  if (!names.empty()) text += fmt::format("not ranked (--json says why): {}\n", fmt::join(names, ", "));
  return text;
}

}  // namespace kl
