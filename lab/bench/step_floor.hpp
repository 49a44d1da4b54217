// The least time that a seam's calls of one step can take on this machine, by the target's cost
// model: for each call max(bytes / copy bandwidth, operations / rate of matrix products).
#pragma once

#include <lab/bench/calibration.hpp>
#include <lab/build/loader.hpp>
#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kl {

struct StepFloor {
  double bytes = 0, flops = 0;  // a step, all calls
  std::optional<double> ns;     // a step
  std::string unknown;          // why ns is empty
};

// `calibration` null or without ceilings: bytes and operations only. Without a rate of matrix
// products the floor is that of the bytes. The faster of the cold and the warm ceiling counts, so
// that it is a floor for data that is in the caches too.
Result<StepFloor> step_floor(const OracleLibrary& oracle, const Target& target, const std::vector<SeamShape>& shapes,
                             const Calibration* calibration);

}  // namespace kl
