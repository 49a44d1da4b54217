// Which listed cases are timed beside the step: they may not regress, and decide nothing else.
#pragma once

#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>

#include <vector>

namespace kl {

// At most two: the largest cases of the spec's lists, of the step's own element types, that have
// at most half the volume of the step's largest shape, so that they cost little, and at least
// 4096, below which a call is mostly overhead. Their calls_per_step is 0.
std::vector<SeamShape> cases_beside_the_step(const Target& target,
                                             const std::vector<SeamShape>& step);

}  // namespace kl
