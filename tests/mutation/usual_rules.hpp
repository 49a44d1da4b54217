// What is usually taken for a correctness check, on the same arrays that verify judges: run inside
// this process, for comparison only.
#pragma once

#include <lab/build/loader.hpp>
#include <lab/verify/oracle_run.hpp>

namespace kl {

// Whether every output of every case passes each rule.
struct UsualRules {
  bool allclose = true;          // |got − y| ≤ 1e-2 + 1e-2·|y|, every element
  bool abs_or_rel = true;        // |got − y| ≤ 1e-2 or ≤ 1e-2·|y|, every element
  bool most_within_1pct = true;  // 99 % of the elements within 1 % (or 1e-8)
};

// Runs forward and backward of each case with the library; a kernel that refuses fails every rule.
UsualRules judge_by_usual_rules(const kl_kernel_table& kernel, const kl_services& lent,
                                const std::vector<CaseData>& cases);

}  // namespace kl
