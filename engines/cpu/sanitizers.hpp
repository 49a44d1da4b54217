// AddressSanitizer and UndefinedBehaviorSanitizer, which a kernel is built with.
#pragma once

#include <lab/engine/sanitizer.hpp>

#include <vector>

namespace kl::cpu {

// missing_tool where the compiler's run-times for them are not installed.
Result<std::vector<Sanitizer>> sanitizers();

}  // namespace kl::cpu
