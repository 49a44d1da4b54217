#include <engines/cuda/probes.hpp>

#include <engines/cuda/gate.hpp>
#include <engines/cuda/matrix_rate.hpp>

#include <lab/core/clock.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace kl::cuda {
namespace {

struct Mix {
  int reads, writes;
  const char* kernel;
};
constexpr Mix kMixes[] = {{1, 2, "kl_copy_1_2"}, {1, 1, "kl_copy_1_1"}, {2, 1, "kl_copy_2_1"},
                          {4, 1, "kl_copy_4_1"}, {1, 0, "kl_copy_1_0"}};
constexpr int kMostStreams = 5;

// As device_code.cu's Streams.
struct Streams {
  CUdeviceptr in[4] = {};
  CUdeviceptr out[4] = {};
};

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<int64_t>(samples.size()) / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

class Probe {
 public:
  explicit Probe(const CeilingRequest& request) : request_(request) {}
  ~Probe() {
    if (stream_ != nullptr) context_->driver().cuStreamDestroy(stream_);
  }

  Result<DeviceCeilings> measure() {
    KL_TRY(context_, Context::open());
    const Driver& driver = context_->driver();
    CUresult error = driver.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0);
    if (error == CUDA_SUCCESS) error = gate_.create(*context_);
    if (error == CUDA_SUCCESS) error = stopwatch_.create(*context_, gate_, stream_);
    const int64_t l2 = std::max<int64_t>(context_->device().l2_bytes, 8 << 20);
    if (error == CUDA_SUCCESS) error = flushed_.allocate(driver, static_cast<size_t>(2 * l2));
    if (error != CUDA_SUCCESS) return error_of(error, "setting up the probes");
    result_.flush_bytes = 2 * l2;
    result_.figures.event_bracket_ns = static_cast<double>(stopwatch_.empty_bracket_ns());
    for (const auto step : {&Probe::copies, &Probe::latencies, &Probe::timers})
      if (error = (this->*step)(); error != CUDA_SUCCESS) return error_of(error, "a probe of the device");
    report(request_.progress, {0, 0, "", "matrix products"});
    measure_matrix_rates(*context_, stopwatch_, stream_, request_.quick, result_.figures);
    return std::move(result_);
  }

 private:
  std::vector<int64_t> footprints() const {
    if (request_.quick) return {1 << 20, 16 << 20, 64 << 20, int64_t{1} << 30};
    std::vector<int64_t> list;
    for (int64_t bytes = 256 << 10; bytes <= int64_t{2} << 30; bytes *= 2) list.push_back(bytes);
    return list;
  }

  CUresult copies() {
    const auto sizes = footprints();
    if (const CUresult error = data_.allocate(context_->driver(), static_cast<size_t>(sizes.back())); error != CUDA_SUCCESS)
      return error;
    double done = 0;
    for (const int64_t footprint : sizes) {
      report(request_.progress, {done++, static_cast<double>(sizes.size()), "footprints", "copies"});
      for (const Mix& mix : kMixes)
        for (const bool cold : {true, false})
          if (const CUresult error = copy(footprint, mix, cold); error != CUDA_SUCCESS) return error;
    }
    return cache_knee();
  }

  CUresult copy(int64_t footprint, const Mix& mix, bool cold) {
    const int parts = mix.reads + mix.writes;
    static_assert(kMostStreams <= 8);
    const uint64_t count = static_cast<uint64_t>(footprint / parts / 16);  // float4 per stream
    if (count == 0) return CUDA_SUCCESS;
    Streams streams;
    for (int i = 0; i < parts; ++i)
      (i < mix.reads ? streams.in[i] : streams.out[i - mix.reads]) = data_.at(static_cast<size_t>(i) * count * 16);
    Ceiling best{footprint, static_cast<double>(mix.reads) / parts, cold, 0, ""};
    for (const unsigned per_multiprocessor : {4u, 16u, 64u}) {
      const auto most = static_cast<uint64_t>(context_->device().multiprocessors) * per_multiprocessor;
      const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>((count + 255) / 256, 1, most));
      double ns = 0;
      const auto enqueue = [&] { return context_->launch(mix.kernel, blocks, 256, stream_, streams, count, flushed_.at()); };
      if (const CUresult error = median_span(enqueue, cold, ns); error != CUDA_SUCCESS) return error;
      const double rate = static_cast<double>(count) * 16 * parts / std::max(ns, 1.0);
      if (rate > best.gb_per_s) {
        best.gb_per_s = rate;
        best.method = fmt::format("{} blocks of 256 threads, 16 bytes a load", blocks);
      }
    }
    result_.ceilings.push_back(best);
    return CUDA_SUCCESS;
  }

  CUresult median_span(const std::function<CUresult()>& enqueue, bool cold, double& ns) {
    std::vector<double> samples;
    for (int i = 0; i < (request_.quick ? 5 : 9); ++i) {
      if (cold || i == 0)
        if (const CUresult error = flush(); error != CUDA_SUCCESS) return error;
      if (!cold && i == 0)
        if (const CUresult error = enqueue(); error != CUDA_SUCCESS) return error;
      CUresult error = gate_.close(stream_);
      if (error == CUDA_SUCCESS) error = stopwatch_.start();
      if (error == CUDA_SUCCESS) error = enqueue();
      if (error == CUDA_SUCCESS) error = stopwatch_.stop();
      gate_.open();
      if (error == CUDA_SUCCESS) error = stopwatch_.wait();
      int64_t span = 0;
      if (error == CUDA_SUCCESS) error = stopwatch_.elapsed(span);
      if (error != CUDA_SUCCESS) return error;
      samples.push_back(static_cast<double>(std::max<int64_t>(1, span - stopwatch_.bracket_ns())));
    }
    ns = median(std::move(samples));
    return CUDA_SUCCESS;
  }

  CUresult flush() {
    const uint64_t bytes = flushed_.bytes();
    const CUresult error = context_->launch("kl_fill", context_->blocks_for(bytes / 8), Context::kThreads, stream_,
                                            flushed_.at(), bytes, ++flushes_);
    return error == CUDA_SUCCESS ? context_->driver().cuStreamSynchronize(stream_) : error;
  }

  // Where re-reading a footprint falls from the cache's rate to the memory's: the largest footprint still
  // faster than the geometric mean of the two. A copy is too short to show it: its launch hides the difference.
  CUresult cache_knee() {
    constexpr uint32_t kPasses = 16;
    const int64_t l2 = context_->device().l2_bytes;
    if (l2 <= 0) return CUDA_SUCCESS;
    std::vector<std::pair<int64_t, double>> rates;  // bytes, bytes/ns
    for (int64_t eighths = 2; eighths <= 32; eighths += eighths < 12 ? 1 : 4) {
      const int64_t footprint = l2 / 8 * eighths / 16 * 16;
      if (static_cast<size_t>(footprint) > data_.bytes()) break;
      double ns = 0;
      const auto enqueue = [&] {
        return context_->launch("kl_reread", static_cast<unsigned>(context_->device().multiprocessors) * 16, 256, stream_,
                                data_.at(), static_cast<uint64_t>(footprint / 16), kPasses, flushed_.at());
      };
      if (const CUresult error = median_span(enqueue, false, ns); error != CUDA_SUCCESS) return error;
      rates.emplace_back(footprint, static_cast<double>(footprint) * kPasses / std::max(ns, 1.0));
    }
    if (rates.size() < 3) return CUDA_SUCCESS;
    double fastest = 0;
    for (const auto& [bytes, rate] : rates) fastest = std::max(fastest, rate);
    const double slowest = rates.back().second;
    if (fastest < 1.25 * slowest) return CUDA_SUCCESS;  // no cache to be seen
    for (const auto& [bytes, rate] : rates)
      if (rate > std::sqrt(fastest * slowest)) result_.figures.cache_knee_bytes = static_cast<double>(bytes);
    return CUDA_SUCCESS;
  }

  // Microseconds of one round by the host's clock.
  CUresult timed_us(int rounds, const std::function<CUresult()>& round, std::optional<double>& us) {
    std::vector<double> samples;
    for (int i = 0; i < rounds; ++i) {
      const int64_t begin = monotonic_ns();
      if (const CUresult error = round(); error != CUDA_SUCCESS) return error;
      if (i >= rounds / 10) samples.push_back(static_cast<double>(monotonic_ns() - begin) * 1e-3);
    }
    us = median(std::move(samples));
    return CUDA_SUCCESS;
  }

  CUresult latencies() {
    const Driver& driver = context_->driver();
    const auto empty = [&] { return context_->launch("kl_empty", 1, 1, stream_); };
    const auto wait = [&] { return driver.cuStreamSynchronize(stream_); };
    const auto both = [&](CUresult launched) { return launched == CUDA_SUCCESS ? wait() : launched; };
    DeviceFigures& f = result_.figures;
    CUresult error = timed_us(300, [&] { return both(empty()); }, f.launch_us);
    if (error == CUDA_SUCCESS) error = timed_us(300, wait, f.sync_us);
    constexpr int kMany = 1000;
    if (error == CUDA_SUCCESS)
      error = timed_us(20, [&] {
        for (int i = 0; i < kMany; ++i)
          if (const CUresult launched = empty(); launched != CUDA_SUCCESS) return launched;
        return wait();
      }, f.launch_rate_us);
    if (f.launch_rate_us) *f.launch_rate_us /= kMany;
    if (error != CUDA_SUCCESS) return error;

    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    error = driver.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (error != CUDA_SUCCESS) return error;
    const CUresult launched = empty();
    if (error = driver.cuStreamEndCapture(stream_, &graph); error != CUDA_SUCCESS) return error;
    error = launched == CUDA_SUCCESS ? driver.cuGraphInstantiateWithFlags(&exec, graph, 0) : launched;
    driver.cuGraphDestroy(graph);
    if (error != CUDA_SUCCESS) return error;
    error = timed_us(300, [&] { return both(driver.cuGraphLaunch(exec, stream_)); }, f.graph_launch_us);
    driver.cuGraphExecDestroy(exec);
    return error;
  }

  // Smallest steps of the device's own timer, and of the events that time calls.
  CUresult timers() {
    uint64_t smallest = 0;
    CUresult error = context_->launch("kl_timer_step", 1, 1, stream_, flushed_.at(), 100'000u);
    if (error == CUDA_SUCCESS) error = context_->driver().cuStreamSynchronize(stream_);
    if (error == CUDA_SUCCESS) error = context_->driver().cuMemcpyDtoH(&smallest, flushed_.at(), sizeof smallest);
    if (error != CUDA_SUCCESS) return error;
    if (smallest != ~uint64_t{0}) result_.figures.device_clock_ns = static_cast<double>(smallest);
    std::vector<int64_t> spans;
    for (uint64_t ns = 2000; ns < 2400; ns += 4) {
      error = gate_.close(stream_);
      if (error == CUDA_SUCCESS) error = stopwatch_.start();
      if (error == CUDA_SUCCESS) error = context_->launch("kl_spin", 1, 1, stream_, ns);
      if (error == CUDA_SUCCESS) error = stopwatch_.stop();
      gate_.open();
      if (error == CUDA_SUCCESS) error = stopwatch_.wait();
      int64_t span = 0;
      if (error == CUDA_SUCCESS) error = stopwatch_.elapsed(span);
      if (error != CUDA_SUCCESS) return error;
      spans.push_back(span);
    }
    std::sort(spans.begin(), spans.end());
    for (size_t i = 1; i < spans.size(); ++i)
      if (const int64_t step = spans[i] - spans[i - 1];
          step > 0 && (result_.timer_resolution_ns == 0 || step < result_.timer_resolution_ns))
        result_.timer_resolution_ns = step;
    return CUDA_SUCCESS;
  }

  const CeilingRequest& request_;
  std::unique_ptr<Context> context_;
  CUstream stream_ = nullptr;
  Gate gate_;
  Stopwatch stopwatch_;
  DeviceMemory data_, flushed_;
  uint64_t flushes_ = 0;
  DeviceCeilings result_;
};

}  // namespace

Result<DeviceCeilings> measure_ceilings(const CeilingRequest& request) { return Probe(request).measure(); }

}  // namespace kl::cuda
