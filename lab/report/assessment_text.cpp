#include <lab/report/assessment_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl {
namespace {

struct Group {
  const char* title;
  const std::vector<EvidenceLine>* lines;
};

std::vector<Group> groups(const Assessment& a) {
  return {{"heuristic", &a.heuristic}, {"trace", &a.trace},          {"integration", &a.integration},
          {"stale", &a.stale},         {"another machine class", &a.other_class},
          {"unidentified (version 1)", &a.unidentified}};
}

std::vector<std::string> cells(const EvidenceLine& line) {
  return {line.created_at.substr(0, 19), line.event_type, line.status,
          line.metric_value ? fmt::format("{} {:.4g}", line.metric_name, *line.metric_value) : "",
          line.preset, short_hash(line.kernel),
          line.because.empty() ? "" : fmt::format("{}", fmt::join(line.because, "; "))};
}

std::string figures_line(const Assessment& a) {
  std::string text;
  if (a.seam_share) text += fmt::format("seam share {} of the step; ", share_text(*a.seam_share));
  if (a.time_ratio) text += fmt::format("candidate/champion seam time {:.3f}; ", *a.time_ratio);
  if (a.gain_bound)
    text += fmt::format("at most {} of the step to gain, {} needed; ", share_text(*a.gain_bound, 2),
                        share_text(a.gain_threshold, 2));
  if (text.size() >= 2) text.resize(text.size() - 2);
  return text;
}

}  // namespace

std::string assessment_text(const Assessment& a, const Style& style) {
  std::string text = fmt::format("{} on {}, preset {}\n", style.bold(a.target), a.engine, or_none(a.preset));
  text += fmt::format("  candidate {}  champion {}\n", a.candidate_hash.empty() ? "none" : short_hash(a.candidate_hash),
                      a.champion_hash.empty() ? "none" : short_hash(a.champion_hash));
  if (const std::string figures = figures_line(a); !figures.empty()) text += "  " + figures + "\n";
  for (const auto& blocker : a.blockers) text += fmt::format("  {} {}\n", style.warn("blocker:"), blocker);
  for (const auto& move : a.moves) text += fmt::format("  moved: {}\n", move);
  for (const auto& note : a.notes) text += fmt::format("  note: {}\n", note);
  text += fmt::format("{} {}   {} {}\n", style.bold("state:"), a.state, style.bold("answer:"), a.answer);
  if (!a.next.why.empty()) text += fmt::format("         {}\n", a.next.why);
  return text;
}

std::string evidence_text(const Assessment& a, const Style& style) {
  std::string text;
  for (const auto& group : groups(a)) {
    if (group.lines->empty()) continue;
    text += style.bold(group.title) + "\n";
    Table table({"when (UTC)", "event", "status", "number", "preset", "kernel", "why it does not count"});
    for (const auto& line : *group.lines) table.row(cells(line));
    text += table.text(style);
  }
  if (text.empty()) text = "no evidence yet\n";
  return text + assessment_text(a, style);
}

}  // namespace kl
