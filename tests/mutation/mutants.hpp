// Seeded bugs and honest variants of the targets' reference kernels, as substitutions in their
// text.
#pragma once

#include <string>
#include <vector>

namespace kl {

struct Mutant {
  std::string target;
  std::string name;
  std::string from;  // occurs in reference.cpp; the first occurrence is replaced
  std::string to;
};

const std::vector<Mutant>& seeded_bugs();
const std::vector<Mutant>& honest_variants();

}  // namespace kl
