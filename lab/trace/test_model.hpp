// Traces made by hand, for tests: times in microseconds.
#pragma once

#include <lab/trace/model.hpp>

#include <string_view>

namespace kl::trace {

inline constexpr int64_t kThread = thread_number(1000, 1001);

class ModelBuilder {
 public:
  ModelBuilder() {
    model.format = "kernel-lab";
    model.source_version = "test";
  }
  ModelBuilder& device(int64_t index, std::string_view name) {
    model.devices.push_back({index, std::string(name)});
    return *this;
  }
  DeviceActivity& item(ActivityKind kind, int64_t begin_us, int64_t end_us, int64_t device = 0, int64_t stream = 7,
                       int64_t correlation = kNone, std::string_view name = "k") {
    DeviceActivity a;
    a.kind = kind;
    a.span = {begin_us * 1000, end_us * 1000};
    a.device = device;
    a.stream = stream;
    a.name = model.names.id(name);
    a.process = process_of(kThread);
    a.correlation = correlation;
    model.activities.push_back(a);
    return model.activities.back();
  }
  DeviceActivity& kernel(int64_t begin_us, int64_t end_us, int64_t device = 0, int64_t stream = 7, int64_t correlation = kNone,
                         std::string_view name = "k") {
    return item(ActivityKind::kernel, begin_us, end_us, device, stream, correlation, name);
  }
  ModelBuilder& call(std::string_view name, int64_t begin_us, int64_t end_us, int64_t correlation = kNone, int64_t thread = kThread) {
    model.calls.push_back({call_kind(name), {begin_us * 1000, end_us * 1000}, model.names.id(name), process_of(thread), thread, correlation});
    return *this;
  }
  ModelBuilder& range(RangeKind kind, std::string_view name, int64_t begin_us, int64_t end_us, int64_t thread = kThread) {
    model.ranges.push_back({kind, {begin_us * 1000, end_us * 1000}, model.names.id(name), process_of(thread), thread});
    return *this;
  }
  TraceModel model;
};

}  // namespace kl::trace
