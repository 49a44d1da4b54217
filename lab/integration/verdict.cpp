#include <lab/integration/verdict.hpp>

#include <fmt/format.h>

namespace kl {
namespace {

using stats::AbDecision;

std::string speed_text(const stats::AbLook& look) {
  return fmt::format("{:+.2f} % speed ({:+.2f} % … {:+.2f} %) after {} pairs; effects under {:.2f} % do not count here",
                     100 * look.speed_up, 100 * look.speed_up_low, 100 * look.speed_up_high,
                     look.pairs, 100 * look.delta);
}

}  // namespace

IntegrationVerdict undecided_verdict(const stats::AbLook& look, int max_pairs) {
  if (look.reason == "noisy-platform")
    return {Status::inconclusive, "noisy-platform",
            fmt::format("the pairs scatter by {:.2f} %, over three times this machine's A/A noise; {}",
                        100 * look.sd, speed_text(look)),
            "leave the machine alone and run again, or calibrate it anew: kernel-lab calibrate --aa",
            look.n_to_decide};
  const int64_t needed = look.n_to_decide;
  return {Status::inconclusive, "underpowered", speed_text(look),
          needed <= 16 && needed > max_pairs
              ? fmt::format("about {} pairs would decide: --pairs {}", needed, stats::rounded_look(needed))
              : fmt::format("about {} pairs of this length would decide; a quieter machine or longer legs (--time-budget) need fewer", needed),
          needed};
}

namespace {

IntegrationVerdict faster(const VerdictInput& input) {
  const auto& gates = input.gates;
  const std::string speed = speed_text(input.look);
  for (const auto& [name, gate] : {std::pair{"L0", &gates.l0}, std::pair{"L1", &gates.l1},
                                   std::pair{"L2", &gates.l2}, std::pair{"memory", &gates.memory}})
    if (!gate->ran)
      return {Status::inconclusive, "gates-not-run", fmt::format("faster, but {}: {}; {}", name, gate->text, speed),
              "the trainer must answer replay, snapshots, perturb and memory (docs/trainer-protocol.md)", 0};
  if (!gates.l2.passed)
    return {Status::inconclusive, "maths-changed", fmt::format("faster, but {}; {}", gates.l2.text, speed),
            "find what the kernel computes differently; a reordering of sums does not part the curves this far", 0};
  if (input.maths != MathsClass::exact_reorder)
    return {Status::inconclusive, "loss-underpowered",
            fmt::format("faster, but a {} target needs its loss compared over independent seeds; {}",
                        to_string(input.maths), speed),
            "this comparison runs one seed; the loss of such a class is not decided by it", 0};
  if (!gates.memory.passed)
    return {Status::mixed, "memory", fmt::format("faster, but {}; {}", gates.memory.text, speed),
            "save less between forward and backward, or ask for less scratch", 0};
  return {Status::validated, "", speed, "", 0};
}

}  // namespace

IntegrationVerdict integration_verdict(const VerdictInput& input) {
  const auto& gates = input.gates;
  // A loss that is not finite aborts the run: the gate says more than the failure.
  if (gates.l0.ran && !gates.l0.passed)
    return {Status::regressed, "l0-failed", gates.l0.text, "verify --full the kernel; then look at its backward pass", 0};
  if (input.failure)
    return {Status::inconclusive, *input.failure, input.failure_text, input.failure_remedy,
            *input.failure == "gates-not-run" ? 0 : stats::kLooks.front()};
  if (!gates.calls.passed)
    return {Status::inconclusive, "gates-not-run", "the candidate did not provably run: " + gates.calls.text,
            "the trainer must load the library of the plan and count its calls", 0};
  if (gates.l1.ran && !gates.l1.passed)
    return {Status::regressed, "l1-failed", gates.l1.text,
            "the kernel computes something else at the trainer's shapes: verify --full", 0};
  const auto& look = input.look;
  switch (look.decision) {
    case AbDecision::slower:
      return {Status::regressed, "slower", speed_text(look), "", 0};
    case AbDecision::equivalent:
      return {Status::equivalent, "equivalent", speed_text(look),
              "this target has nothing to give on this preset; look at another", 0};
    case AbDecision::faster:
      if (input.mean_log_total >= 0)
        return {Status::inconclusive, "noisy-platform",
                fmt::format("the trimmed steps are faster, but all steps together are not ({:+.2f} %): stalls; {}",
                            100 * input.mean_log_total, speed_text(look)),
                "find the stalls in the raw samples, then run again", look.pairs};
      return faster(input);
    default:
      return undecided_verdict(look, input.max_pairs);
  }
}

}  // namespace kl
