// The kernel under the engine's sanitizers, on the plan's small shapes: run by a program of its own,
// outside the confined worker, because these tools open, map and start more than a kernel may.
#pragma once

#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/case_plan.hpp>

#include <filesystem>

namespace kl {

struct SanitizeReport {
  Status status = Status::missing_tool;  // ok, rejected, or why it did not run
  std::string rule;                      // "address-sanitizer", "memcheck", …
  std::string proof;
  std::string remedy;
  int64_t cases = 0;
  std::vector<std::string> tools;
  std::vector<SanitizerFinding> findings;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("status", self.status, "ok, rejected, or why it did not run");
    v("rule", self.rule, "which sanitizer objected, or could not be run");
    v("proof", self.proof, "its report, trimmed, or the missing thing");
    v("remedy", self.remedy, "what to do, when it did not run");
    v("cases", self.cases, "calls of forward and backward under each sanitizer");
    v("tools", self.tools, "the sanitizers that ran to their end and found nothing");
    v("findings", self.findings, "what the one that objected said, one by one");
  }
};

SanitizeReport run_sanitizers(const Engine& engine, const Target& target, const CasePlan& plan,
                              const std::filesystem::path& kernel, uint64_t seed);

}  // namespace kl
