// A checkpoint: weights, the optimiser's state and where the run was, in one safetensors file.
//
// A run by steps that is resumed gives the bits that the uninterrupted run would have given, on the
// same machine, with the same libraries, threads and data. A run by time follows the clock and so
// cannot.
#pragma once

#include <lab/core/safetensors.hpp>
#include <trainer/session.hpp>

namespace kl::trainer {

// How far a run has come, and what it was asked for.
struct RunPosition {
  int64_t step = 0;    // steps done
  double elapsed = 0;  // seconds of training
  int64_t steps = 0;   // of the whole run; 0 when it is limited by time
  double seconds = 0;  // of the whole run; 0 when it is limited by steps

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("step", self.step, "steps done");
    v("elapsed", self.elapsed, "seconds of training");
    v("steps", self.steps, "steps of the whole run; 0: limited by time");
    v("seconds", self.seconds, "seconds of the whole run; 0: limited by steps");
  }
};

// Atomic: when it fails, the checkpoint that was there is still there.
Outcome write_checkpoint(Session& session, const RunPosition& position,
                         const std::filesystem::path& path);

struct CheckpointFacts {
  Config config;
  RunPosition position;
  std::string corpus_hash;
};
// What a checkpoint says of itself. Errors: no checkpoint, torn, or of another program.
Result<CheckpointFacts> read_checkpoint_facts(const std::filesystem::path& path);

// Weights, optimiser and the place in the data. Errors name the tensor that does not fit, or other
// data.
Outcome resume(Session& session, const CheckpointFacts& facts, const std::filesystem::path& path);

}  // namespace kl::trainer
