// One case on a candidate: forward and backward chained, twice, and every element judged.
#pragma once

#include <lab/verify/call_site.hpp>
#include <lab/verify/judge.hpp>

#include <chrono>
#include <optional>

namespace kl {

// Why a candidate does not pass: a broken rule, or a mismatch with its element.
struct CaseFailure {
  Status status = Status::mismatch;
  std::string rule;
  std::string proof;
  std::optional<FailingElement> failing;
};
CaseFailure failure_of(const Fault& fault, const std::string& where);

// What the judge needs to know beside the data.
struct TrialContext {
  const Target* target = nullptr;
  const CaseGroup* group = nullptr;
  const Case* item = nullptr;
  std::string name() const { return case_name(*group, *item); }
};

struct CaseResult {
  std::vector<OutputBytes> outputs;                  // [operation]
  std::vector<std::vector<OutputVerdict>> verdicts;  // [operation][output]
  int64_t elements = 0;
  double worst_fraction = 0;
  bool repeatable = true;
  std::optional<CaseFailure> failure;
};

// Judges the outputs of all operations; `failure` is the first element outside its bound.
CaseResult judge_case(const TrialContext& context, const CaseData& data,
                      std::vector<OutputBytes> outputs, int poison_pattern);

// Runs the case twice, over different old contents; once unless `again`. `settle`: how long after
// the return outputs are compared again. The replay of a captured graph is judged as well.
CaseResult try_case(CallSite& site, const TrialContext& context, const CaseData& data,
                    std::chrono::microseconds settle, bool again = true);

// Runs every operation once, in order.
OrFault<std::vector<OutputBytes>> run_all(CallSite& site, const CaseData& data, int poison_pattern);

// A failure "worse-than-champion" when the largest error of an output exceeds the champion's cap.
std::optional<CaseFailure> compare_with_champion(const TrialContext& context, const CaseData& data,
                                                 const CaseResult& candidate,
                                                 const CaseResult& champion);

}  // namespace kl
