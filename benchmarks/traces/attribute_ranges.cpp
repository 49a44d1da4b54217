// Attributes 2 M kernels by 16 M nested ranges, eight of them around each launch: seconds, as a line of JSON.
//   attribute_ranges [KERNELS]
#include <lab/trace/attribution.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

int main(int count, char** arguments) {
  using namespace kl::trace;
  constexpr int64_t kDepth = 8, kStep = 1000;
  const int64_t kernels = count > 1 ? std::atoll(arguments[1]) : 2'000'000;
  TraceModel model;
  const int64_t thread = thread_number(5, 6), process = process_of(thread);
  const NameId name = model.names.id("k"), launch = model.names.id("cudaLaunchKernel");
  for (int64_t i = 0; i < kernels; ++i) {
    const int64_t at = i * kStep;
    for (int64_t d = 0; d < kDepth; ++d)
      model.ranges.push_back({RangeKind::seam, {at + d, at + kStep - d}, model.names.id(d % 2 == 0 ? "rmsnorm/forward" : "softmax/forward"), process, thread});
    model.calls.push_back({CallKind::launch, {at + 100, at + 110}, launch, process, thread, i});
    DeviceActivity item;
    item.span = {at + 200, at + 700};
    item.name = name;
    item.process = process;
    item.correlation = i;
    model.activities.push_back(item);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Attribution found = attribute(model);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  int64_t innermost = 0;
  for (size_t i = 0; i < found.size(); ++i) innermost += found[i].seam == "softmax/forward";
  fmt::print("{{\"ranges\": {}, \"kernels\": {}, \"in_the_innermost\": {}, \"attribute_s\": {:.3f}}}\n", model.ranges.size(), kernels, innermost, seconds);
  return innermost == kernels ? 0 : 1;
}
