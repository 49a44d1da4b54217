// What a comparison in the trainer amounts to: one pure function of the pairs and the gates.
#pragma once

#include <lab/core/status.hpp>
#include <lab/integration/gates.hpp>
#include <lab/stats/ab_look.hpp>
#include <lab/target/target.hpp>

#include <optional>
#include <string>

namespace kl {

struct VerdictInput {
  // A leg that gave no number: aborted, fingerprint-mismatch.
  std::optional<std::string> failure;
  std::string failure_text;
  std::string failure_remedy;
  Gates gates;
  stats::AbLook look;
  // Mean log ratio of time per token over all timed steps, stalls included.
  double mean_log_total = 0;
  MathsClass maths = MathsClass::exact_reorder;
  int max_pairs = 16;
};

struct IntegrationVerdict {
  Status status = Status::inconclusive;
  std::string reason;       // a short stable name: "slower", "underpowered", "maths-changed" …
  std::string explanation;  // one sentence with the numbers
  std::string remedy;
  int64_t n_needed = 0;     // pairs in all that would decide; 0: decided
};

// The first that applies: failure; unproved calls (gates-not-run); L0 or L1 broken (regressed);
// slower; equivalent; undecided; faster, and then gates not run, maths changed, reduced-precision
// classes without independent seeds (loss-underpowered), memory (mixed), else validated.
IntegrationVerdict integration_verdict(const VerdictInput& input);

// Of pairs that decided nothing, at most `max_pairs` of them: why, and what would decide.
IntegrationVerdict undecided_verdict(const stats::AbLook& look, int max_pairs);

}  // namespace kl
