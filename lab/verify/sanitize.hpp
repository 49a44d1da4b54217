// AddressSanitizer and UndefinedBehaviorSanitizer on cpu: the kernel built with each and run on
// the plan's small shapes by a program of its own, outside the confined worker.
#pragma once

#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/case_plan.hpp>

#include <filesystem>

namespace kl {

struct SanitizeReport {
  Status status = Status::missing_tool;  // ok, rejected, or why it did not run
  std::string rule;                      // "address-sanitizer", "undefined-behaviour"
  std::string proof;
  int64_t cases = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("status", self.status, "ok, rejected, or why it did not run");
    v("rule", self.rule, "which sanitizer objected");
    v("proof", self.proof, "its report, trimmed, or the missing thing");
    v("cases", self.cases, "calls of forward and backward under each sanitizer");
  }
};

SanitizeReport run_sanitizers(const Engine& engine, const Target& target, const CasePlan& plan,
                              const std::filesystem::path& kernel, uint64_t seed);

}  // namespace kl
