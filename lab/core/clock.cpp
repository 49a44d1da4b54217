#include <lab/core/clock.hpp>

#include <fmt/chrono.h>
#include <time.h>

namespace kl {

std::string utc_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06d}Z", fmt::gmtime(now.tv_sec), now.tv_nsec / 1000);
}

int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace kl
