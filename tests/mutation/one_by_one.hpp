// The reference of a target with every sum taken one by one in f32: the plainest honest kernel, and
// the one with the largest rounding errors that a bound must allow.
#pragma once

#include <string>
#include <string_view>

namespace kl {

std::string summed_one_by_one(std::string_view target, std::string reference);

}  // namespace kl
