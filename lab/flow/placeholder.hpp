// Files of a target whose mathematics is still to be written: they compute something that compiles,
// has a true gradient and depends on every input, and say where the real thing goes.
#pragma once

#include <lab/target/target.hpp>

#include <string>

namespace kl {

// Case lists whose axes are one, small, odd, whole vectors, and neither.
void fill_cases(Target& target);

// `target`: forward and backward of a signature (lab/flow/signature.hpp). Sets `terms` of its outputs
// to what the placeholder sums over.
void fill_terms(Target& target);
std::string placeholder_formula(const Target& target);
std::string placeholder_oracle(const Target& target);
std::string placeholder_kernel(const Target& target);

}  // namespace kl
