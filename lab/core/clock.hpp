// Clocks: UTC for records, monotonic nanoseconds for durations.
#pragma once

#include <cstdint>
#include <string>

namespace kl {

std::string utc_now();  // 2026-12-01T20:28:43.123456Z
int64_t monotonic_ns();

}  // namespace kl
