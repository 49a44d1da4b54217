// verify: is the kernel right? One request, one record; no printing, no ledger.
#pragma once

#include <lab/core/progress.hpp>
#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>
#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/case_plan.hpp>

#include <filesystem>
#include <optional>

namespace kl {

struct VerifyRequest {
  const Engine* engine = nullptr;
  const Target* target = nullptr;
  std::filesystem::path kernel;             // the candidate's source
  std::filesystem::path champion;           // the target's champion: its error bounds the candidate's
  std::vector<SeamShape> trainer_shapes;    // of the preset; may be empty
  std::vector<CapturedCall> captured;       // cases of real data; may be empty
  std::string preset;
  int64_t largest_whole_case = kLargestWholeCase;  // output elements; larger ones repeat rows
  bool full = false;
  bool sanitize = false;
  std::optional<uint64_t> seed;             // drawn from the operating system when absent
  Progress progress;
};

struct FailingElement {
  std::string case_name;
  std::string operation;
  std::string output;
  std::vector<int64_t> index;
  double expected = 0;
  double got = 0;          // null when not finite; got_text has it
  std::string got_text;
  double bound = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("case", self.case_name, "name of the case");
    v("operation", self.operation, "forward or backward");
    v("output", self.output, "name of the output tensor");
    v("index", self.index, "position of the element");
    v("expected", self.expected, "the oracle's value");
    v("got", self.got, "the kernel's value; null when it is not finite");
    v("got_text", self.got_text, "the kernel's value as text");
    v("bound", self.bound, "largest |got - expected| that passes");
  }
};

struct VerifyRecord : RecordHeader {
  static constexpr std::string_view kSchema = "verify";
  std::string kernel_hash;
  std::string mode;                        // quick, full
  uint64_t seed = 0;
  int64_t cases_planned = 0;
  int64_t cases_run = 0;
  int64_t elements_checked = 0;
  double worst_bound_fraction = 0;         // max |got - expected| / bound over all elements
  bool bitwise_repeatable = false;
  std::string rule;                        // of a rejection
  std::string proof;
  std::optional<FailingElement> failing;
  CompileReport compile;
  Json confinement = Json::object();

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("kernel_hash", self.kernel_hash, "SHA-256 of the kernel's source");
    v("mode", self.mode, "quick or full");
    v("seed", self.seed, "replays this run with --seed");
    v("cases_planned", self.cases_planned, "frozen before the candidate was loaded");
    v("cases_run", self.cases_run, "must equal cases_planned to pass");
    v("elements_checked", self.elements_checked, "elements compared with the oracle");
    v("worst_bound_fraction", self.worst_bound_fraction, "largest error over its bound");
    v("bitwise_repeatable", self.bitwise_repeatable, "same bits on repeated calls");
    v("rule", self.rule, "rule that was broken, when rejected or failed");
    v("proof", self.proof, "what was seen");
    v("failing", self.failing, "first failing element, when mismatch");
    v("compile", self.compile, "the compiler's report");
    v("confinement", self.confinement, "limits that could be applied to the worker");
  }
};

// The record's identity holds kernel, flags, harness, case_plan, baseline, fingerprint_class.
VerifyRecord verify(const VerifyRequest& request);

}  // namespace kl
