// The order in which the two arms run. ABBA cancels a linear drift inside every block; turning every
// second block round (BAAB) keeps the first place from always going to the same arm.
#pragma once

#include <vector>

namespace kl::stats {

enum class Arm : unsigned char { baseline, candidate };  // A and B

constexpr Arm other(Arm arm) { return arm == Arm::baseline ? Arm::candidate : Arm::baseline; }

// Which arm runs first in pair i: A B B A A B B A …; two pairs make one block.
constexpr Arm first_of_pair(int pair) {
  return (pair / 2 + pair) % 2 == 0 ? Arm::baseline : Arm::candidate;
}

// The 2·pairs runs of a comparison: ABBA BAAB ABBA …
std::vector<Arm> abba_order(int pairs);

}  // namespace kl::stats
