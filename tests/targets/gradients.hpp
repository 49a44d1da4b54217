// Whether an oracle's backward is the derivative of its forward, for any target, by its spec alone.
#pragma once

#include "target_call.hpp"

#include <string>
#include <vector>

namespace kl::target_test {

// Names tie the two operations together. Of backward's inputs, `dX` is the gradient that comes in
// for forward's output X, `g` that for forward's first output of one element (a loss); every other
// one is called as forward's input or output that it is. Of backward's outputs, `dX` is the
// gradient of forward's input X. What does not read so is listed here, with the names that would
// do.
std::vector<std::string> naming_faults(const Target& target);

// Central differences of sum(incoming * output) against backward, in double, at the target's
// smallest shapes, with all optional inputs and with none. One line for each gradient that is off.
std::vector<std::string> gradient_faults(const Target& target, const OracleLibrary& oracle);

}  // namespace kl::target_test
