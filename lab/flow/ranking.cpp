#include <lab/flow/ranking.hpp>

#include <lab/flow/relevance.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kl {
namespace {

struct Move {
  std::string_view state;
  double weight;
  std::string_view because;
};
// What a state does to the score. States without a row leave it alone.
constexpr std::array kMoves = {
    Move{"integration-regressed", 0.1, "an A/B says that the trainer gets slower"},
    Move{"integration-equivalent", 0.1, "an A/B says that the trainer does not care"},
    Move{"trace-deprioritized", 0.1, "the bound on the gain is below what can be decided"},
};
constexpr double kStrongDiagnosis = 1.25;
constexpr double kWeakDiagnosis = 0.5;

double bound_of(const TargetFacts& facts) {
  double gain = facts.gain_of_share.value_or(1);
  if (facts.measured_ns && facts.floor_ns && *facts.measured_ns > 0) gain = 1 - *facts.floor_ns / *facts.measured_ns;
  return std::min(1.0, facts.share.value_or(0) * std::clamp(gain, 0.0, 1.0) + facts.credited_share);
}

void move_by(RankedCandidate& candidate, double weight, std::string because) {
  candidate.score *= weight;
  candidate.moved_by.push_back(fmt::format("{} (x {:g})", because, weight));
}

void move_by_evidence(RankedCandidate& candidate, const Assessment& now) {
  for (const Move& move : kMoves)
    if (now.state == move.state) move_by(candidate, move.weight, std::string(move.because));
  if (const auto judged = relevance_from_string(now.relevance); judged && weight_of(*judged) != 1)
    move_by(candidate, weight_of(*judged), fmt::format("{} judged it {}", now.relevance_by, now.relevance));
  if (now.diagnosis_confidence && is_strong(now.diagnosis, *now.diagnosis_confidence))
    move_by(candidate, kStrongDiagnosis, "a strong diagnosis: " + now.diagnosis);
  if (now.diagnosis_weak) move_by(candidate, kWeakDiagnosis, "a weak diagnosis waits for a person: " + now.diagnosis);
}

std::string rationale_of(const RankedCandidate& c) {
  std::string text = fmt::format("{:.2f} % of the step ({})", 100 * c.share, c.share_from);
  if (c.credited_share > 0)
    text += fmt::format(", {:.2f} % credited ({}): at most {:.2f} % to gain", 100 * c.credited_share, c.credited_for, 100 * c.gain_bound);
  else if (c.floor_ns && c.measured_ns)
    text += fmt::format(", {:.2f} x its floor: at most {:.2f} % to gain", *c.measured_ns / *c.floor_ns, 100 * c.gain_bound);
  else if (c.floor_unknown.empty())
    text += fmt::format(", at most {:.2f} % to gain by the newest trace-profile", 100 * c.gain_bound);
  else
    text += fmt::format(", floor unknown ({}): the share is the bound", c.floor_unknown);
  return text;
}

}  // namespace

Ranking rank_targets(const std::vector<TargetFacts>& facts, const std::map<std::string, Assessment>& standing) {
  Ranking ranking;
  for (const TargetFacts& f : facts) {
    if (!f.not_on_path.empty() || (!f.share && f.credited_share <= 0)) {
      ranking.not_ranked.push_back({f.target, !f.not_on_path.empty() ? f.not_on_path : "its share of the step is unknown"});
      continue;
    }
    RankedCandidate c{.target = f.target, .seam = f.seam, .category = f.category, .starter = f.starter, .share = f.share.value_or(0),
                      .share_from = f.share ? f.share_from : "timing", .measured_ns = f.measured_ns, .floor_ns = f.floor_ns,
                      .floor_unknown = f.floor_unknown, .credited_share = f.credited_share, .credited_for = f.credited_for};
    c.score = c.gain_bound = bound_of(f);
    c.relevance = to_string(relevance_of(c.gain_bound));
    if (const auto it = standing.find(f.target); it != standing.end()) {
      c.state = it->second.state;
      c.answer = it->second.answer;
      move_by_evidence(c, it->second);
    }
    c.rationale = rationale_of(c);
    ranking.candidates.push_back(std::move(c));
  }
  std::stable_sort(ranking.candidates.begin(), ranking.candidates.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  for (size_t i = 0; i < ranking.candidates.size(); ++i) ranking.candidates[i].rank = static_cast<int64_t>(i) + 1;
  return ranking;
}

}  // namespace kl
