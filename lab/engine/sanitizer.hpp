// A tool that watches a kernel run and says what it did that it must not do, right answers or not.
#pragma once

#include <lab/core/process.hpp>
#include <lab/core/result.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace kl {

struct SanitizerFinding {
  std::string kind;    // "Invalid __global__ read of size 4 bytes"
  std::string kernel;  // the function, where the tool names it
  std::string place;   // "kernel.cu:12", where it is known
  std::string detail;  // the rest of what was said, on one line

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("kind", self.kind, "what the tool calls it");
    v("kernel", self.kernel, "the function; empty when not named");
    v("place", self.place, "file and line; empty when not known");
    v("detail", self.detail, "the rest of what was said");
  }
};

struct SanitizerVerdict {
  Status status = Status::execution_failed;  // ok, rejected, or why nothing can be said
  std::string proof;                         // of a rejection, or what went wrong
  std::string remedy;
  std::vector<SanitizerFinding> findings;
};

struct Sanitizer {
  std::string rule;   // the rule that a rejection names: "address-sanitizer", "memcheck"
  std::string build;  // CompileRequest::sanitizer; empty: the library is the judged one
  // Runs `program` under the tool; `folder` is scratch.
  std::function<Command(std::vector<std::string> program, const std::filesystem::path& folder)>
      command;
  // `program` ends with 0 when every case ran.
  std::function<SanitizerVerdict(const Finished& run, const std::filesystem::path& folder)> verdict;
};

}  // namespace kl
