// Reads and summarises one trace: seconds, megabytes a second, peak memory, as a line of JSON.
#include <lab/core/files.hpp>
#include <lab/trace/import/import.hpp>
#include <lab/trace/summary.hpp>

#include <fmt/format.h>

#include <sys/resource.h>

#include <chrono>
#include <cstdio>

int main(int count, char** arguments) {
  using Clock = std::chrono::steady_clock;
  if (count != 2) return std::fputs("usage: read_trace FILE\n", stderr), 2;
  const auto seconds_since = [](Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); };
  const auto begin = Clock::now();
  const auto model = kl::trace::read_trace(arguments[1]);
  if (!model.ok()) return std::fputs((model.error().what + "\n").c_str(), stderr), 1;
  const double read_s = seconds_since(begin);
  const kl::trace::Summary summary = kl::trace::summarise(*model);
  const double all_s = seconds_since(begin);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double mb = static_cast<double>(kl::fs::file_size(arguments[1])) / 1e6;
  int64_t busy_ns = 0;
  for (const auto& device : summary.devices) busy_ns += device.busy_union_ns;
  fmt::print("{{\"mb\": {:.1f}, \"read_s\": {:.3f}, \"all_s\": {:.3f}, \"mb_per_s\": {:.0f}, \"peak_mb\": {}, \"activities\": {}, \"calls\": {}, \"busy_ns\": {}}}\n",
             mb, read_s, all_s, mb / read_s, usage.ru_maxrss / 1024, model->activities.size(), model->calls.size(), busy_ns);
  return 0;
}
