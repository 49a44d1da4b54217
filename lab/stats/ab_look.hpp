// Rule 2: is a training run faster? Pairs of runs are looked at on a fixed schedule (Pocock,
// "Group sequential methods in the design and analysis of clinical trials", 1977).
#pragma once

#include <lab/stats/interval.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace kl::stats {

inline constexpr std::array<int, 4> kLooks = {4, 8, 12, 16};  // pairs
inline constexpr std::array<double, 4> kLookCriticalT = {4.73, 3.08, 2.77, 2.63};
inline constexpr double kSmallestEffect = 0.005;  // log units
inline constexpr double kNoiseStopFactor = 3;     // × the calibrated A/A SD
inline constexpr double kFutilePower = 0.05;

// 4, 8, 12 or 16: the look at or after `pairs`, else the last one.
int rounded_look(int64_t pairs);

// max(0.5 %, 2 · 2.131 · s_AA / √16): what 16 pairs can resolve on this machine.
double effective_delta(double aa_sd);

struct AbRule {
  double delta = kSmallestEffect;  // δ_eff, log units
  double aa_sd = 0;                // SD of this machine's A/A pairs; 0: no noise stop
  bool stop_when_futile = true;    // non-binding: the error rate holds either way

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("delta", self.delta, "effective delta, log units");
    v("aa_sd", self.aa_sd, "standard deviation of the A/A pairs delta comes from");
    v("stop_when_futile", self.stop_when_futile, "stop once the last look could hardly decide");
  }
};
// Error when aa_sd is not a positive finite number: then A/A pairs come first.
Result<AbRule> ab_rule(double aa_sd);

enum class AbDecision : unsigned char { next_look, faster, slower, equivalent, inconclusive };
std::string_view to_string(AbDecision decision);
std::optional<AbDecision> ab_decision_from_string(std::string_view name);

struct AbLook {
  AbDecision decision = AbDecision::next_look;
  std::string reason;    // of inconclusive: underpowered, noisy-platform, aborted
  int look = 0;          // the look that decided, or the last one taken; 0: none yet
  int pairs = 0;         // that this look used
  int next_pairs = 0;    // run up to this many pairs and ask again; 0: finished
  bool futile = false;   // the last look could hardly decide
  double delta = 0;      // the rule's; from `sd` where that is beyond the noise stop
  double mean_log_ratio = 0;
  double sd = 0;
  double critical_t = 0;
  Interval interval;     // mean ± critical_t · sd / √pairs: the one that decides
  Interval t_95;         // unadjusted, to read beside it
  Interval walsh_95;     // exact signed-rank, to read beside it
  double speed_up = 0;   // exp(−mean) − 1
  double speed_up_low = 0;
  double speed_up_high = 0;
  int64_t n_to_decide = 0;  // pairs in all; 0 when decided
  double power_at_1_percent = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    std::string decision(to_string(self.decision));
    v("decision", decision, "next-look, faster, slower, equivalent or inconclusive");
    if constexpr (!std::is_const_v<Self>)
      self.decision = ab_decision_from_string(decision).value_or(AbDecision::inconclusive);
    v("reason", self.reason, "why it is inconclusive");
    v("look", self.look, "number of the look, from 1");
    v("pairs", self.pairs, "pairs this look used");
    v("next_pairs", self.next_pairs, "pairs at the next look; 0: finished");
    v("futile", self.futile, "the last look could hardly decide");
    v("delta", self.delta, "effective delta, log units; from sd where that is over three times the A/A pairs'");
    v("mean_log_ratio", self.mean_log_ratio, "mean of log(candidate / baseline); negative: faster");
    v("sd", self.sd, "standard deviation of the pairs, n-1");
    v("critical_t", self.critical_t, "critical t of this look");
    v("interval", self.interval, "the interval that decides");
    v("t_95", self.t_95, "95 % t interval without regard to looks");
    v("walsh_95", self.walsh_95, "95 % exact signed-rank interval");
    v("speed_up", self.speed_up, "exp(-mean) - 1");
    v("speed_up_low", self.speed_up_low, "lower end, from the interval that decides");
    v("speed_up_high", self.speed_up_high, "upper end, from the interval that decides");
    v("n_to_decide", self.n_to_decide, "pairs that would decide; 0: decided");
    v("power_at_1_percent", self.power_at_1_percent,
      "chance that 16 pairs with this SD name a 1 % speed-up; the earlier looks only add to it");
  }
};

// `pair_log_ratios`: log(candidate / baseline) of each pair, in the order they ran; a pair whose run
// failed is a NaN. Replays the schedule from the first look, so that an answer once given stays:
// pairs after it, and pairs between two looks, change nothing.
AbLook decide_pairs(std::span<const double> pair_log_ratios, const AbRule& rule);

}  // namespace kl::stats
