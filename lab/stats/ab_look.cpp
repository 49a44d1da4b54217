#include <lab/stats/ab_look.hpp>

#include <lab/stats/distributions.hpp>
#include <lab/stats/moments.hpp>
#include <lab/stats/paired_t.hpp>
#include <lab/stats/sample_size.hpp>
#include <lab/stats/signed_rank.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kl::stats {

namespace {

constexpr std::array<std::string_view, 5> kDecisionNames = {"next-look", "faster", "slower",
                                                            "equivalent", "inconclusive"};
constexpr double kLastPairs = kLooks.back();

// Chance, given the pairs so far, that the last look decides anything: its mean is predicted by a t
// distribution around the mean so far, its SD by the SD so far.
double chance_of_deciding(const AbLook& look) {
  if (!(look.sd > 0)) return 1;
  const double n = look.pairs, left = kLastPairs - n;
  const double scale = left / kLastPairs * look.sd * std::sqrt(1 / n + 1 / left);
  const double half = kLookCriticalT.back() * look.sd / std::sqrt(kLastPairs);
  const auto below = [&](double bound) {
    return student_below((bound - look.mean_log_ratio) / scale, n - 1);
  };
  const double faster = below(-look.delta - half), slower = 1 - below(look.delta + half);
  const double room = look.delta - half;
  return faster + slower + (room > 0 ? below(room) - below(-room) : 0);
}

bool noisier_than_calibrated(const AbLook& look, const AbRule& rule) {
  return rule.aa_sd > 0 && look.sd > kNoiseStopFactor * rule.aa_sd;
}

// What this look says: a decision, or next_look.
void judge(AbLook& look, const AbRule& rule) {
  const bool last = look.look == static_cast<int>(kLooks.size());
  const bool noisy = noisier_than_calibrated(look, rule);
  // The calibrated δ describes another machine: these pairs are held to the one their own scatter gives.
  if (noisy) look.delta = std::max(rule.delta, effective_delta(look.sd));
  if (look.interval.below(-look.delta)) {
    look.decision = AbDecision::faster;
  } else if (look.interval.above(look.delta)) {
    look.decision = AbDecision::slower;
  } else if (noisy) {
    look.decision = AbDecision::inconclusive;
    look.reason = "noisy-platform";
  } else if (look.interval.inside(-look.delta, look.delta)) {
    look.decision = AbDecision::equivalent;
  } else {
    look.futile = !last && chance_of_deciding(look) < kFutilePower;
    if (last || (look.futile && rule.stop_when_futile)) {
      look.decision = AbDecision::inconclusive;
      look.reason = "underpowered";
    }
  }
}

AbLook take_look(std::span<const double> pairs, size_t index, const AbRule& rule) {
  AbLook look;
  look.look = static_cast<int>(index) + 1;
  look.pairs = kLooks[index];
  look.delta = rule.delta;
  look.critical_t = kLookCriticalT[index];
  look.mean_log_ratio = mean(pairs);
  look.sd = standard_deviation(pairs);
  const double covered = 1 - 2 * student_above(look.critical_t, look.pairs - 1);
  look.interval = t_interval_at(pairs, look.critical_t, covered);
  judge(look, rule);
  return look;
}

// What is read beside a look but does not decide it; of the calibrated δ, which is what pairs on a quieter machine
// would be held to.
void annotate(AbLook& look, std::span<const double> pairs, const AbRule& rule) {
  look.t_95 = t_interval(pairs, 0.95);
  look.walsh_95 = walsh_interval(pairs, 0.95);
  look.speed_up = std::expm1(-look.mean_log_ratio);
  look.speed_up_low = std::expm1(-look.interval.high);
  look.speed_up_high = std::expm1(-look.interval.low);
  look.power_at_1_percent = power_beyond(std::log1p(0.01), rule.delta, look.sd, kLooks.back(),
                                         kLookCriticalT.back());
  const bool decided =
      look.decision != AbDecision::next_look && look.decision != AbDecision::inconclusive;
  if (decided) return;
  const double confidence = 1 - 2 * student_above(kLookCriticalT.back(), kLastPairs - 1);
  look.n_to_decide = samples_to_decide(look.mean_log_ratio, look.sd,
                                       {.delta = rule.delta,
                                        .conclusive_confidence = confidence,
                                        .equivalent_confidence = confidence,
                                        .fewest = kLooks.front()});
}

AbLook aborted(int pairs, const AbRule& rule) {
  AbLook look;
  look.decision = AbDecision::inconclusive;
  look.reason = "aborted";
  look.pairs = pairs;
  look.delta = rule.delta;
  look.n_to_decide = kLooks.front();
  return look;
}

}  // namespace

int rounded_look(int64_t pairs) {
  for (const int look : kLooks)
    if (pairs <= look) return look;
  return kLooks.back();
}

double effective_delta(double aa_sd) {
  return std::max(kSmallestEffect, 2 * 2.131 * aa_sd / std::sqrt(kLastPairs));
}

Result<AbRule> ab_rule(double aa_sd) {
  if (!std::isfinite(aa_sd) || aa_sd <= 0)
    return make_error(Status::error, fmt::format("the A/A pairs have a standard deviation of {}", aa_sd),
                      "run A/A pairs on this machine first: kernel-lab calibrate --aa");
  return AbRule{.delta = effective_delta(aa_sd), .aa_sd = aa_sd};
}

std::string_view to_string(AbDecision decision) {
  return kDecisionNames[static_cast<size_t>(decision)];
}

std::optional<AbDecision> ab_decision_from_string(std::string_view name) {
  const auto found = std::find(kDecisionNames.begin(), kDecisionNames.end(), name);
  if (found == kDecisionNames.end()) return std::nullopt;
  return static_cast<AbDecision>(found - kDecisionNames.begin());
}

AbLook decide_pairs(std::span<const double> pair_log_ratios, const AbRule& rule) {
  AbLook look{.next_pairs = kLooks.front(), .delta = rule.delta};
  for (size_t i = 0; i < kLooks.size(); ++i) {
    const auto due = static_cast<size_t>(kLooks[i]);
    const auto pairs = pair_log_ratios.first(std::min(due, pair_log_ratios.size()));
    if (!std::all_of(pairs.begin(), pairs.end(), [](double d) { return std::isfinite(d); }))
      return aborted(static_cast<int>(pairs.size()), rule);
    if (pairs.size() < due) return look;
    look = take_look(pairs, i, rule);
    if (look.decision == AbDecision::next_look) look.next_pairs = kLooks[i + 1];
    const bool over = look.decision != AbDecision::next_look;
    if (over || pair_log_ratios.size() < static_cast<size_t>(look.next_pairs)) annotate(look, pairs, rule);
    if (over) return look;
  }
  return look;
}

}  // namespace kl::stats
