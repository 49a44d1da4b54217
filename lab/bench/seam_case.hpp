// One shape at which the trainer calls a seam, with the private pool its contents come from.
#pragma once

#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/case_plan.hpp>
#include <lab/verify/oracle_run.hpp>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace kl {

// How the contents of one tensor were taken from the pool: rotated and scaled. With the pool it
// gives the contents again (lab/worker/draw.hpp), so that `accumulate` outputs need no copy of what they held before.
struct Draw {
  int64_t rotation = 0;  // elements
  double factor = 1;
};

struct SeamCase {
  SeamShape shape;
  CaseGroup group;
  // One draw of every input and of every accumulate or inout base. The bytes of a strided tensor are
  // those of its buffer, gaps included.
  CaseData pool;

  static Result<SeamCase> create(const Target& target, const SeamShape& shape, uint64_t seed);
};

// A fresh draw for a tensor of this kind: any rotation; sign and scale too where values are real.
Draw random_draw(const TensorData& tensor, InputKind kind, std::mt19937_64& random);

}  // namespace kl
