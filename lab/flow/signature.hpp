// The signature of an operation, as a user writes it: "y[N,C] = swiglu(x[N,C], g[N,C], eps)".
#pragma once

#include <lab/target/target.hpp>

#include <string_view>

namespace kl {

// Forward as written, and the backward that its names imply: dX comes in for each output X and goes
// out for each input X, beside the inputs of forward. A word without axes is a scalar. Each axis has
// a name or a constant length. Errors: usage, with the column and the form expected.
Result<std::vector<OperationSpec>> operations_of_signature(std::string_view text);

}  // namespace kl
