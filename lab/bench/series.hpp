// The raw measurements of a bench, as kept in its samples file: any verdict follows from them.
#pragma once

#include <lab/core/record.hpp>

#include <string>
#include <vector>

namespace kl {

// Times of one arm in one process, by call slot (shape-major, operation-minor) and letter.
struct ArmSeries {
  std::vector<std::vector<int64_t>> worker_ns;  // by the worker's clock, around `run`
  std::vector<std::vector<int64_t>> parent_ns;  // by the parent's clock, around the command
  std::vector<std::vector<int64_t>> processor_ns;  // of all the worker's threads

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("worker_ns", self.worker_ns, "by call slot, one value a letter, worker's clock");
    v("parent_ns", self.parent_ns, "by call slot, one value a letter, parent's clock");
    v("processor_ns", self.processor_ns, "by call slot, one value a letter, all threads");
  }
  size_t letters() const { return worker_ns.empty() ? 0 : worker_ns.front().size(); }
};

// A block that was measured while the machine was disturbed, and repeated: it decides nothing.
struct SetAsideBlock {
  std::string why;
  std::vector<double> baseline_step_ns, candidate_step_ns;  // cold letters, a step's seam time

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("why", self.why, "what disturbed it");
    v("baseline_step_ns", self.baseline_step_ns, "cold letters, seam time of one step");
    v("candidate_step_ns", self.candidate_step_ns, "cold letters, seam time of one step");
  }
};

struct ProcessSeries {
  int index = 0;
  bool control = false;         // the baseline in both places
  bool candidate_first = false; // blocks are BAAB instead of ABBA
  std::string stopped;          // precise, planned, cap, unsteady
  ArmSeries baseline_cold, candidate_cold;  // two letters a block
  ArmSeries baseline_warm, candidate_warm;
  std::vector<SetAsideBlock> set_aside;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("index", self.index, "order in which the processes ran");
    v("control", self.control, "the baseline in both places");
    v("candidate_first", self.candidate_first, "blocks are BAAB instead of ABBA");
    v("stopped", self.stopped, "precise, planned, cap or unsteady");
    v("baseline_cold", self.baseline_cold, "caches flushed");
    v("candidate_cold", self.candidate_cold, "caches flushed");
    v("baseline_warm", self.baseline_warm, "inputs just written");
    v("candidate_warm", self.candidate_warm, "inputs just written");
    v("set_aside", self.set_aside, "blocks measured while the machine was disturbed");
  }
};

struct BenchSamples {
  static constexpr std::string_view kSchema = "bench-samples";
  int schema_version = 1;
  std::string target;
  std::string preset;
  int threads = 1;                         // a kernel may use
  std::vector<std::string> slots;          // "forward C=64 N=256"
  std::vector<int64_t> calls_per_step;     // of each slot; 0: timed beside the step, not part of it
  std::vector<std::string> shapes;         // "C=64 N=256"; the slots of a shape follow each other
  std::vector<ProcessSeries> processes;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("schema_version", self.schema_version, "version of this form");
    v("target", self.target, "key of the target");
    v("preset", self.preset, "trainer operating point");
    v("threads", self.threads, "threads a kernel may use");
    v("slots", self.slots, "what each call slot is");
    v("calls_per_step", self.calls_per_step, "calls of each slot in one training step; 0: beside it");
    v("shapes", self.shapes, "each shape, in the order of its slots");
    v("processes", self.processes, "in the order they ran");
  }
};

inline int64_t blocks_of(const ProcessSeries& p) {
  return static_cast<int64_t>(p.baseline_cold.letters() / 2);
}

// Seam nanoseconds of one training step, one value a letter.
std::vector<double> step_ns(const std::vector<std::vector<int64_t>>& by_slot,
                            const std::vector<int64_t>& calls_per_step);

}  // namespace kl
