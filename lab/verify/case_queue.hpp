// Prepares cases ahead of the worker: contents, the oracle's answers and the audit of the case,
// on all cores, in the order of the plan.
#pragma once

#include <lab/verify/oracle_run.hpp>

#include <deque>
#include <future>

namespace kl {

struct PreparedCase {
  size_t group = 0;
  size_t item = 0;
  CaseData data;
};

class CaseQueue {
 public:
  // The referenced objects must outlive the queue. `ahead`: cases prepared at once.
  CaseQueue(const OracleLibrary& oracle, const Target& target, const CasePlan& plan, uint64_t seed,
            int ahead);
  // The next case of the plan; an Error when the oracle or the audit refuses it.
  Result<PreparedCase> next();
  bool done() const { return pending_.empty(); }

 private:
  void start_one();

  const OracleLibrary& oracle_;
  const Target& target_;
  const CasePlan& plan_;
  uint64_t seed_;
  size_t group_ = 0, item_ = 0;
  std::deque<std::future<Result<PreparedCase>>> pending_;
};

// One case outside a queue, without audit.
Result<CaseData> prepare_case(const OracleLibrary& oracle, const Target& target,
                              const CaseGroup& group, const Case& item, uint64_t run_seed);

}  // namespace kl
