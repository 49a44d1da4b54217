// What the number of a flag may be, said in its help and checked on the text: the parser's own
// conversions take "nan" for seconds, and cut what is out of a type's range to the nearest that fits.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>

namespace kl::app {

// Above 0, to `most`: a day where nothing else is said.
CLI::Validator seconds_check(double most = 86'400);
CLI::Validator whole_number_check(int64_t least, int64_t most);
// 0 to 2^64 - 1.
CLI::Validator seed_check();

}  // namespace kl::app
