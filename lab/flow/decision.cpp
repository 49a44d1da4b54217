#include <lab/flow/decision.hpp>

#include <fmt/format.h>

#include <array>

namespace kl {
namespace {

using S = PromotionState;
using A = PromotionAnswer;

// From this share of the step on, a target is worth a look at its hardware counters.
constexpr double kDeepProfileShare = 0.1;

struct StateRow {
  S state;
  bool (*applies)(const Facts&);
};

constexpr std::array kStates = {
    StateRow{S::promoted, [](const Facts& f) { return f.is_champion && f.promotion_recorded; }},
    StateRow{S::stale, [](const Facts& f) { return f.any_evidence && !f.current_evidence; }},
    StateRow{S::integration_validated,
             [](const Facts& f) { return f.conclusive_ab == Status::validated; }},
    StateRow{S::integration_regressed,
             [](const Facts& f) { return f.conclusive_ab == Status::regressed; }},
    StateRow{S::integration_mixed, [](const Facts& f) { return f.conclusive_ab == Status::mixed; }},
    StateRow{S::integration_equivalent,
             [](const Facts& f) { return f.conclusive_ab == Status::equivalent; }},
    StateRow{S::integration_tested, [](const Facts& f) { return f.latest_ab.has_value(); }},
    StateRow{S::trace_deprioritized, [](const Facts& f) { return !f.can_matter(); }},
    StateRow{S::ready_for_integration_test,
             [](const Facts& f) { return f.verified && f.seam_share.has_value(); }},
    StateRow{S::trace_backed, [](const Facts& f) { return f.seam_share.has_value(); }},
    StateRow{S::verified_only, [](const Facts& f) { return f.verified; }},
    StateRow{S::no_evidence, [](const Facts&) { return true; }},
};

struct AnswerRow {
  A answer;
  bool (*applies)(const Facts&, S);
};

constexpr std::array kAnswers = {
    AnswerRow{A::already_champion, [](const Facts& f, S) { return f.is_champion; }},
    AnswerRow{A::rejected, [](const Facts& f, S) { return !f.rejection.empty(); }},
    AnswerRow{A::deprioritized,
              [](const Facts&, S s) {
                return s == S::trace_deprioritized || s == S::integration_regressed ||
                       s == S::integration_equivalent;
              }},
    AnswerRow{A::needs_capture, [](const Facts& f, S) { return f.has_seam && !f.seam_share && !f.captured && !f.latest_ab; }},
    AnswerRow{A::needs_trace_profile,
              [](const Facts& f, S) { return (f.has_seam && f.capture_unprofiled) || (f.external && !f.traced); }},
    AnswerRow{A::needs_deep_profile,
              [](const Facts& f, S) {
                return f.traced && f.can_deep_profile && !f.deep_profiled && f.seam_share.value_or(0) >= kDeepProfileShare;
              }},
    AnswerRow{A::needs_manual_review, [](const Facts& f, S) { return f.weak_diagnosis; }},
    AnswerRow{A::ready_for_workspace_family, [](const Facts& f, S) { return !f.has_starter; }},
    AnswerRow{A::ready_for_workspace, [](const Facts& f, S) { return !f.has_candidate; }},
    AnswerRow{A::needs_verify, [](const Facts& f, S) { return !f.verified; }},
    AnswerRow{A::needs_integration_adapter, [](const Facts& f, S) { return !f.has_seam; }},
    AnswerRow{A::ready_for_integration, [](const Facts& f, S) { return !f.latest_ab.has_value(); }},
    AnswerRow{
        A::stabilize_integration,
        [](const Facts&, S s) { return s == S::integration_mixed || s == S::integration_tested; }},
    AnswerRow{A::needs_confirmation, [](const Facts& f, S) { return !f.confirmed(); }},
    AnswerRow{A::ready_to_promote, [](const Facts&, S) { return true; }},
};

template <class Row, size_t n>
std::vector<std::string> names(const std::array<Row, n>& rows) {
  std::vector<std::string> result;
  for (const auto& row : rows) {
    if constexpr (requires { row.state; })
      result.emplace_back(to_string(row.state));
    else
      result.emplace_back(to_string(row.answer));
  }
  return result;
}

}  // namespace

std::string_view to_string(PromotionState state) {
  switch (state) {
    case S::promoted:
      return "promoted";
    case S::stale:
      return "stale";
    case S::integration_validated:
      return "integration-validated";
    case S::integration_regressed:
      return "integration-regressed";
    case S::integration_mixed:
      return "integration-mixed";
    case S::integration_equivalent:
      return "integration-equivalent";
    case S::integration_tested:
      return "integration-tested";
    case S::trace_deprioritized:
      return "trace-deprioritized";
    case S::ready_for_integration_test:
      return "ready-for-integration-test";
    case S::trace_backed:
      return "trace-backed";
    case S::verified_only:
      return "verified-only";
    case S::no_evidence:
      return "no-evidence";
  }
  return "no-evidence";
}

std::string_view to_string(PromotionAnswer answer) {
  switch (answer) {
    case A::already_champion:
      return "already-champion";
    case A::rejected:
      return "rejected";
    case A::deprioritized:
      return "deprioritized";
    case A::needs_capture:
      return "needs-capture";
    case A::needs_trace_profile:
      return "needs-trace-profile";
    case A::needs_deep_profile:
      return "needs-deep-profile";
    case A::needs_manual_review:
      return "needs-manual-review";
    case A::ready_for_workspace_family:
      return "ready-for-workspace-family";
    case A::ready_for_workspace:
      return "ready-for-workspace";
    case A::needs_verify:
      return "needs-verify";
    case A::needs_integration_adapter:
      return "needs-integration-adapter";
    case A::ready_for_integration:
      return "ready-for-integration";
    case A::stabilize_integration:
      return "stabilize-integration";
    case A::needs_confirmation:
      return "needs-confirmation";
    case A::ready_to_promote:
      return "ready-to-promote";
  }
  return "rejected";
}

std::span<const std::string> promotion_state_names() {
  static const auto all = names(kStates);
  return all;
}

std::span<const std::string> promotion_answer_names() {
  static const auto all = names(kAnswers);
  return all;
}

PromotionState state_of(const Facts& facts) {
  for (const auto& row : kStates)
    if (row.applies(facts)) return row.state;
  return S::no_evidence;
}

PromotionAnswer answer_of(const Facts& facts, PromotionState state) {
  for (const auto& row : kAnswers)
    if (row.applies(facts, state)) return row.answer;
  return A::ready_to_promote;
}

std::vector<std::string> blockers_of(const Facts& f) {
  std::vector<std::string> blockers;
  const auto add = [&](bool applies, std::string text) {
    if (applies) blockers.push_back(std::move(text));
  };
  if (f.is_champion) return {"the candidate is the champion"};
  add(!f.rejection.empty(), f.rejection);
  add(!f.has_starter, "no starter kernel for this engine");
  add(f.has_starter && !f.has_candidate, "no workspace and no recorded candidate");
  add(f.has_candidate && !f.verified && f.rejection.empty(),
      "no passing verify of this kernel with what is there now");
  add(f.weak_diagnosis, "a weak diagnosis waits for a person's judgement");
  add(!f.has_seam, f.external ? "the lab cannot run the traced program, so no A/B of it can be made"
                              : "the trainer has no seam for this target");
  if (!f.can_matter() && !f.conclusive_ab)
    add(true,
        fmt::format(
            "at most {:.2f} % of the step can be gained; below {:.2f} % nothing can be decided",
            100 * *f.gain_bound, 100 * f.gain_threshold));
  if (!f.conclusive_ab) {
    add(true, f.latest_ab ? "the A/B against the champion is inconclusive"
                          : "no A/B against the champion of this kernel with what is there now");
  } else if (f.mixed_because == "shadowed") {
    add(true, "it beat the champion of its seam, but not the path that the preset runs today");
  } else if (f.mixed_because == "memory") {
    add(true, "the A/B against the champion says mixed: faster, but with more memory");
  } else if (*f.conclusive_ab != Status::validated) {
    add(true, fmt::format("the A/B against the champion says {}", to_string(*f.conclusive_ab)));
  } else if (!f.confirmed()) {
    add(true, fmt::format("it won out of {} tries; a fresh A/B must confirm it", f.tries));
  }
  return blockers;
}

}  // namespace kl
