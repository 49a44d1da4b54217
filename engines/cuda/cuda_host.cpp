#include <engines/cuda/cuda_host.hpp>

#include <engines/cuda/gate.hpp>
#include <engines/cuda/mirrors.hpp>

#include <lab/core/clock.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace kl::cuda {
namespace {

// A device whose stream is done has nothing left to do; waiting for the rest of it takes microseconds.
constexpr int64_t kIdle_ns = 200'000;
constexpr int kBusyInARow = 3;  // a host that was away for a moment is no proof
// Calls below this are replayed as graphs: the host could not enqueue their kernels without gaps.
constexpr int64_t kShort_ns = 200'000;
constexpr int64_t kLeastLook_ns = 1'000'000, kLongestLook_ns = 20'000'000;

#define KL_DEVICE_TRY(expr) \
  if (auto KL_CONCAT(kl_fault_, __LINE__) = (expr)) return *KL_CONCAT(kl_fault_, __LINE__)

std::optional<DeviceFault> failed(CUresult error, std::string_view step) {
  if (error == CUDA_SUCCESS) return std::nullopt;
  return fault_of(error, step);
}

struct Graph {
  const Driver* driver = nullptr;
  CUgraphExec exec = nullptr;
  int32_t nodes = 0;
  Graph() = default;
  Graph(Graph&& other) noexcept { swap(other); }
  Graph& operator=(Graph&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Graph() {
    if (exec != nullptr) driver->cuGraphExecDestroy(exec);
  }
  void swap(Graph& other) noexcept {
    std::swap(driver, other.driver);
    std::swap(exec, other.exec);
    std::swap(nodes, other.nodes);
  }
};

// What a direct run changed of what it is to write.
struct Written {
  uint64_t bytes_looked_at = 0;
  uint64_t count = 0;  // of bytes, in the first buffer that changed
  std::string buffer;
};

// What decides which lines the device's cache keeps, where it can be read.
struct CacheSettings {
  size_t persisting_bytes = 0;  // of the cache, set aside for lines that ask to stay
  size_t window_bytes = 0;      // of the calls' stream: what is read or written there asks so
  int window_property = 0;
  bool operator==(const CacheSettings&) const = default;
};

CacheSettings cache_settings(const Driver& driver, CUstream stream) {
  CacheSettings settings;
  if (driver.cuCtxGetLimit(&settings.persisting_bytes, CU_LIMIT_PERSISTING_L2_CACHE_SIZE) != CUDA_SUCCESS)
    settings.persisting_bytes = 0;
  CUstreamAttrValue value{};
  if (driver.cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value) != CUDA_SUCCESS)
    return settings;
  settings.window_bytes = value.accessPolicyWindow.num_bytes;
  settings.window_property = value.accessPolicyWindow.hitProp;
  return settings;
}

class CudaHost final : public DeviceHost {
 public:
  ~CudaHost() override {
    for (const CUstream stream : {stream_, look_})
      if (stream != nullptr) driver().cuStreamDestroy(stream);
  }

  Outcome open() {
    KL_TRY(context_, Context::open());
    // Non-blocking: work on the legacy stream does not wait for this one, and so shows as work that
    // was not behind the gate.
    CUresult error = driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0);
    if (error == CUDA_SUCCESS) error = driver().cuStreamCreateWithPriority(&look_, CU_STREAM_NON_BLOCKING, -1);
    if (error == CUDA_SUCCESS) error = gate_.create(*context_);
    if (error == CUDA_SUCCESS) error = mirrors_.create(*context_);
    if (error == CUDA_SUCCESS) error = stopwatch_.create(*context_, gate_, stream_);
    if (error == CUDA_SUCCESS) {
      // Twice the cache; the kernel that writes it is loaded now.
      error = flushed_.allocate(driver(), static_cast<size_t>(2 * std::max<int64_t>(context_->device().l2_bytes, 8 << 20)));
    }
    if (error != CUDA_SUCCESS) return error_of(error, "setting up the worker's device");
    if (const auto fault = flush()) return make_error(fault->status, fault->proof, "look at nvidia-smi");
    cache_ = cache_settings(driver(), stream_);
    return {};
  }

  DLDevice device() const override { return {kDLCUDA, 0}; }
  std::optional<DeviceFault> enter_thread() override { return failed(context_->make_current(), "cuCtxSetCurrent"); }

  std::optional<DeviceFault> add(int buffer, MirrorRole role, std::byte* host, size_t bytes) override {
    return mirrors_.add(buffer, role, host, bytes, stream_);
  }
  std::optional<DeviceFault> clear() override {
    const CUresult error = driver().cuCtxSynchronize();
    calls_.clear();
    mirrors_.clear();
    return failed(error, "waiting before memory is freed");
  }
  void* address(int buffer) const override {
    const Mirror* m = mirrors_.find(buffer);
    return m == nullptr ? nullptr : reinterpret_cast<void*>(m->data());
  }

  std::optional<DeviceFault> keep_pool(int buffer, DLDataType dtype) override {
    if (mirrors_.find(buffer) == nullptr) return no_buffer(buffer);
    return mirrors_.keep_pool(buffer, dtype, stream_);
  }
  std::optional<DeviceFault> draw(int buffer, int64_t rotation, double factor) override {
    if (mirrors_.find(buffer) == nullptr) return no_buffer(buffer);
    KL_DEVICE_TRY(mirrors_.draw(buffer, rotation, factor, stream_));
    return settle("drawing contents");  // no call waits for it
  }
  std::optional<DeviceFault> fill(int buffer, std::span<const std::byte> unit) override {
    if (mirrors_.find(buffer) == nullptr || unit.empty() || unit.size() > 8) return no_buffer(buffer);
    KL_DEVICE_TRY(mirrors_.fill(buffer, unit, stream_));
    return settle("filling a buffer");
  }
  std::optional<DeviceFault> fetch(int buffer, size_t offset, size_t bytes) override {
    const Mirror* m = mirrors_.find(buffer);
    if (m == nullptr || offset > m->bytes || bytes > m->bytes - offset) return no_buffer(buffer);
    return download(*m, m->data(), offset, bytes);
  }
  std::optional<DeviceFault> fetch_replay(int buffer) override {
    const Mirror* m = mirrors_.find(buffer);
    if (m == nullptr || m->before.empty() || !m->is_written()) return no_buffer(buffer);
    return download(*m, m->before.at(), 0, m->bytes);
  }

  OrDeviceFault<DeviceRun> run(std::span<const int> buffers, const Launch& launch) override;
  std::optional<DeviceFault> flush() override;
  OrDeviceFault<DeviceRun> run_timed(int call, bool may_replay, const Launch& launch) override;
  std::optional<DeviceFault> check_after(std::span<const int> buffers) override {
    KL_DEVICE_TRY(changed_cache());
    KL_DEVICE_TRY(mirrors_.broken_guard(stream_));
    return mirrors_.changed_input(buffers, stream_);
  }

 private:
  const Driver& driver() const { return context_->driver(); }
  static DeviceFault no_buffer(int buffer) {
    return {Status::execution_failed, "binding", fmt::format("buffer {} has no such contents", buffer), false};
  }
  std::optional<DeviceFault> download(const Mirror& m, CUdeviceptr from, size_t offset, size_t bytes) const {
    if (bytes == 0) return std::nullopt;
    KL_DEVICE_TRY(failed(driver().cuStreamSynchronize(stream_), "waiting before a download"));
    return failed(driver().cuMemcpyDtoH(m.host + offset, from + offset, bytes), "downloading a buffer");
  }
  // Waits for the calls' stream alone.
  std::optional<DeviceFault> settle(std::string_view step) const {
    CUresult state = CUDA_ERROR_NOT_READY;
    while (state == CUDA_ERROR_NOT_READY) state = driver().cuStreamQuery(stream_);
    return failed(state, step);
  }
  // How long the rest of the device was still busy.
  std::optional<DeviceFault> wait_for_device(int64_t& waited_ns) const {
    const int64_t begin = monotonic_ns();
    const CUresult error = driver().cuCtxSynchronize();
    waited_ns = monotonic_ns() - begin;
    return failed(error, "waiting for the whole device");
  }
  template <class F>
  std::optional<DeviceFault> each(std::span<const int> buffers, F&& f) {
    for (const int id : buffers)
      if (Mirror* m = mirrors_.find(id)) KL_DEVICE_TRY(f(id, *m));
    return std::nullopt;
  }
  std::optional<DeviceFault> copy(DeviceMemory& to, CUdeviceptr from, size_t bytes) {
    if (to.empty() || to.bytes() != bytes)
      KL_DEVICE_TRY(failed(to.allocate(driver(), bytes), fmt::format("{} bytes of device memory for a check", bytes)));
    if (bytes == 0) return std::nullopt;
    return failed(driver().cuMemcpyDtoDAsync(to.at(), from, bytes, look_), "keeping contents");
  }

  std::optional<DeviceFault> upload_and_keep(std::span<const int> buffers);
  std::optional<DeviceFault> restore(std::span<const int> buffers, bool results);
  std::optional<DeviceFault> direct_run(std::span<const int> buffers, const Launch& launch, DeviceRun& result);
  std::optional<DeviceFault> gated_run(std::span<const int> buffers, const Launch& launch, const DeviceRun& direct);
  std::optional<DeviceFault> replayed_run(std::span<const int> buffers, const Launch& launch, DeviceRun& result);
  std::optional<DeviceFault> capture(const Launch& launch, Graph& graph);
  std::optional<DeviceFault> nothing_enqueued(std::span<const int> buffers);
  std::optional<DeviceFault> count_written(std::span<const int> buffers, Written& written);
  // Settings outlive the call, and the flush would run under them. The policy of a single launch does
  // not: the lines it kept are released and written over by `flush`.
  std::optional<DeviceFault> changed_cache() const {
    const CacheSettings now = cache_settings(driver(), stream_);
    if (now == cache_) return std::nullopt;
    return DeviceFault{Status::rejected, "cache-setting",
                       fmt::format("run changed what the device's cache keeps: {} bytes set aside (were {}), a window "
                                   "of {} bytes on its stream (was {})", now.persisting_bytes, cache_.persisting_bytes,
                                   now.window_bytes, cache_.window_bytes), true};
  }
  std::optional<DeviceFault> waited_inside() const {
    if (!gate_.gave_up()) return std::nullopt;
    return DeviceFault{Status::rejected, "synchronises",
                       "run did not return while its stream was held for 2 s: it waits for the device, which a "
                       "kernel may not", true};
  }

  std::unique_ptr<Context> context_;
  CUstream stream_ = nullptr;  // the calls'
  CUstream look_ = nullptr;    // the lab's, for looking while the other is held
  Gate gate_;
  Mirrors mirrors_;
  Stopwatch stopwatch_;
  DeviceMemory flushed_;
  uint64_t flushes_ = 0;
  CacheSettings cache_;  // before any candidate
  struct Timed {
    int runs = 0;
    int busy_in_a_row = 0;
    Graph graph;
  };
  std::map<int, Timed> calls_;
};

std::optional<DeviceFault> CudaHost::upload_and_keep(std::span<const int> buffers) {
  KL_DEVICE_TRY(failed(driver().cuStreamSynchronize(stream_), "waiting before a call"));
  KL_DEVICE_TRY(each(buffers, [&](int, Mirror& m) -> std::optional<DeviceFault> {
    if (!m.made_here && m.bytes > 0)
      KL_DEVICE_TRY(failed(driver().cuMemcpyHtoDAsync(m.data(), m.host, m.bytes, look_), "uploading a buffer"));
    return copy(m.before, m.data(), m.bytes);
  }));
  return failed(driver().cuStreamSynchronize(look_), "keeping contents");
}

// What calls write, as it was before the first run; or `results`, as the first run left it.
std::optional<DeviceFault> CudaHost::restore(std::span<const int> buffers, bool results) {
  KL_DEVICE_TRY(each(buffers, [&](int, Mirror& m) -> std::optional<DeviceFault> {
    const DeviceMemory& from = results ? m.after : m.before;
    if (!m.is_written() || m.bytes == 0 || from.empty()) return std::nullopt;
    return failed(driver().cuMemcpyDtoDAsync(m.data(), from.at(), m.bytes, look_), "restoring contents");
  }));
  return failed(driver().cuStreamSynchronize(look_), "restoring contents");
}

std::optional<DeviceFault> CudaHost::direct_run(std::span<const int> buffers, const Launch& launch,
                                                DeviceRun& result) {
  KL_DEVICE_TRY(failed(stopwatch_.start(), "recording an event"));
  result.code = launch(stream_);
  KL_DEVICE_TRY(failed(stopwatch_.stop(), "recording an event after run"));
  KL_DEVICE_TRY(settle("run"));
  KL_DEVICE_TRY(failed(stopwatch_.elapsed(result.span_ns), "reading events"));
  result.bracket_ns = stopwatch_.bracket_ns();
  result.span_ns = std::max<int64_t>(0, result.span_ns - result.bracket_ns);

  // As it is now that the stream is done, and again when the whole device is.
  KL_DEVICE_TRY(each(buffers, [&](int, Mirror& m) -> std::optional<DeviceFault> {
    return m.is_written() ? copy(m.after, m.data(), m.bytes) : std::nullopt;
  }));
  KL_DEVICE_TRY(failed(driver().cuStreamSynchronize(look_), "keeping results"));
  int64_t waited_ns = 0;
  KL_DEVICE_TRY(wait_for_device(waited_ns));
  KL_DEVICE_TRY(changed_cache());
  KL_DEVICE_TRY(each(buffers, [&](int id, Mirror& m) -> std::optional<DeviceFault> {
    if (m.role == MirrorRole::scratch) return std::nullopt;
    Findings::Finding found;
    const CUdeviceptr expected = m.is_written() ? m.after.at() : m.before.at();
    KL_DEVICE_TRY(failed(mirrors_.compare(m.data(), expected, m.bytes, look_, found), "comparing results"));
    if (found.count == 0) return std::nullopt;
    if (m.is_written())
      return DeviceFault{Status::rejected, "late-write",
                         fmt::format("{} bytes of {} changed after the call's stream was done, the first is byte {}",
                                     found.count, mirrors_.name(id), found.first), false};
    return DeviceFault{Status::rejected, "writes-input",
                       fmt::format("{} bytes of {} changed, the first is byte {}", found.count, mirrors_.name(id),
                                   found.first), false};
  }));
  if (waited_ns > 10 * kIdle_ns + result.span_ns / 2)
    return DeviceFault{Status::rejected, "side-stream",
                       fmt::format("the call's stream was done after {} us, the device was busy for {} us more",
                                   result.span_ns / 1000, waited_ns / 1000), false};
  return mirrors_.broken_guard(look_);
}

// With the stream held, nothing of the call may happen.
std::optional<DeviceFault> CudaHost::gated_run(std::span<const int> buffers, const Launch& launch,
                                               const DeviceRun& direct) {
  KL_DEVICE_TRY(restore(buffers, false));
  KL_DEVICE_TRY(failed(gate_.close(stream_), "closing the gate"));
  const int32_t code = launch(stream_);
  const int64_t until = monotonic_ns() + std::clamp(2 * direct.span_ns, kLeastLook_ns, kLongestLook_ns);
  while (monotonic_ns() < until) {
  }
  std::optional<DeviceFault> early;
  const auto fault = each(buffers, [&](int id, Mirror& m) -> std::optional<DeviceFault> {
    if (!m.is_written() || early || gate_.gave_up()) return std::nullopt;
    Findings::Finding found;
    KL_DEVICE_TRY(failed(mirrors_.compare(m.data(), m.before.at(), m.bytes, look_, found), "looking behind the gate"));
    if (found.count > 0 && !gate_.gave_up())
      early = DeviceFault{Status::rejected, "side-stream",
                          fmt::format("{} bytes of {} were written while the call's stream was held: the work runs "
                                      "on another stream", found.count, mirrors_.name(id)), true};
    return std::nullopt;
  });
  gate_.open();
  if (fault) return fault;
  KL_DEVICE_TRY(settle("run behind a gate"));
  KL_DEVICE_TRY(waited_inside());
  if (early) return early;
  if (code != direct.code)
    return DeviceFault{Status::execution_failed, "kernel-error",
                       fmt::format("run returned {} the second time, {} the first", code, direct.code), false};
  int64_t waited_ns = 0;
  return wait_for_device(waited_ns);
}

std::optional<DeviceFault> CudaHost::capture(const Launch& launch, Graph& graph) {
  graph.driver = &driver();
  KL_DEVICE_TRY(failed(driver().cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture"));
  const int32_t code = launch(stream_);
  CUgraph captured = nullptr;
  const CUresult ended = driver().cuStreamEndCapture(stream_, &captured);
  const auto refuse = [&](const std::string& proof) {
    if (captured != nullptr) driver().cuGraphDestroy(captured);
    return DeviceFault{Status::rejected, "not-capturable", proof, true};
  };
  if (ended != CUDA_SUCCESS) return refuse(fmt::format("run broke its capture into a graph: {}", describe(ended)));
  if (code != 0) return refuse(fmt::format("run returned {} while it was captured, 0 otherwise", code));
  size_t nodes = 0;
  driver().cuGraphGetNodes(captured, nullptr, &nodes);
  graph.nodes = static_cast<int32_t>(nodes);
  const CUresult made = driver().cuGraphInstantiateWithFlags(&graph.exec, captured, 0);
  if (made != CUDA_SUCCESS) return refuse(fmt::format("the captured graph cannot be made: {}", describe(made)));
  driver().cuGraphDestroy(captured);
  return std::nullopt;
}

std::optional<DeviceFault> CudaHost::count_written(std::span<const int> buffers, Written& written) {
  return each(buffers, [&](int id, Mirror& m) -> std::optional<DeviceFault> {
    if (m.role != MirrorRole::output && m.role != MirrorRole::saved) return std::nullopt;
    Findings::Finding found;
    KL_DEVICE_TRY(failed(mirrors_.compare(m.after.at(), m.before.at(), m.bytes, look_, found), "comparing results"));
    written.bytes_looked_at += m.bytes;
    if (written.count == 0 && found.count > 0) {
      written.count = found.count;
      written.buffer = mirrors_.name(id);
    }
    return std::nullopt;
  });
}

// Either nothing was launched at all, or what was launched went elsewhere.
std::optional<DeviceFault> CudaHost::nothing_enqueued(std::span<const int> buffers) {
  Written written;
  KL_DEVICE_TRY(count_written(buffers, written));
  if (written.count > 0)
    return DeviceFault{Status::rejected, "side-stream",
                       fmt::format("run put nothing on its stream, and yet {} bytes of {} were written", written.count,
                                   written.buffer), true};
  return DeviceFault{Status::execution_failed, "launch-failed",
                     "run returned 0 and put nothing on its stream: a launch failed and was not checked, or there "
                     "was none", false};
}

std::optional<DeviceFault> CudaHost::replayed_run(std::span<const int> buffers, const Launch& launch,
                                                  DeviceRun& result) {
  Graph graph;
  KL_DEVICE_TRY(restore(buffers, false));
  if (auto refused = capture(launch, graph)) {
    if (refused->rule != "not-capturable") return refused;
    // A launch that the driver refuses breaks its capture as well, and leaves nothing written.
    Written written;
    KL_DEVICE_TRY(count_written(buffers, written));
    if (written.bytes_looked_at == 0 || written.count > 0) return refused;
    return DeviceFault{Status::execution_failed, "launch-failed",
                       fmt::format("run returned 0 and wrote nothing: a launch failed and was not checked; {}",
                                   refused->proof), true};
  }
  result.graph_nodes = graph.nodes;
  if (graph.nodes == 0) return nothing_enqueued(buffers);
  KL_DEVICE_TRY(failed(driver().cuGraphLaunch(graph.exec, stream_), "launching the captured graph"));
  KL_DEVICE_TRY(settle("replaying the captured graph"));
  int64_t waited_ns = 0;
  KL_DEVICE_TRY(wait_for_device(waited_ns));
  KL_DEVICE_TRY(each(buffers, [&](int, Mirror& m) -> std::optional<DeviceFault> {
    if (m.role != MirrorRole::output) return std::nullopt;
    Findings::Finding found;
    KL_DEVICE_TRY(failed(mirrors_.compare(m.data(), m.after.at(), m.bytes, look_, found), "comparing the replay"));
    result.replay_differs_bytes += static_cast<int64_t>(found.count);
    return copy(m.before, m.data(), m.bytes);
  }));
  KL_DEVICE_TRY(failed(driver().cuStreamSynchronize(look_), "keeping the replay"));
  return mirrors_.broken_guard(look_);
}

OrDeviceFault<DeviceRun> CudaHost::run(std::span<const int> buffers, const Launch& launch) {
  DeviceRun result;
  KL_DEVICE_TRY(upload_and_keep(buffers));
  KL_DEVICE_TRY(direct_run(buffers, launch, result));
  if (result.code != 0) return result;
  KL_DEVICE_TRY(gated_run(buffers, launch, result));
  KL_DEVICE_TRY(replayed_run(buffers, launch, result));
  KL_DEVICE_TRY(restore(buffers, true));
  KL_DEVICE_TRY(each(buffers, [&](int, Mirror& m) -> std::optional<DeviceFault> {
    // Of what was made here the parent fetches what it wants to see.
    if (m.made_here || (m.role != MirrorRole::output && m.role != MirrorRole::saved)) return std::nullopt;
    return download(m, m.data(), 0, m.bytes);
  }));
  return result;
}

std::optional<DeviceFault> CudaHost::flush() {
  if (context_->device().persisting_l2_bytes > 0)
    KL_DEVICE_TRY(failed(driver().cuCtxResetPersistingL2Cache(), "releasing lines that were pinned in the cache"));
  const uint64_t bytes = flushed_.bytes();
  KL_DEVICE_TRY(failed(context_->launch("kl_fill", context_->blocks_for(bytes / 8), Context::kThreads, stream_,
                                        flushed_.at(), bytes, ++flushes_),
                       "flushing the cache"));
  return settle("flushing the cache");
}

OrDeviceFault<DeviceRun> CudaHost::run_timed(int call, bool may_replay, const Launch& launch) {
  Timed& timed = calls_[call];
  DeviceRun result;
  KL_DEVICE_TRY(settle("writing contents"));
  const bool first = timed.runs++ == 0;
  const bool replayed = !first && timed.graph.exec != nullptr;
  if (!first) KL_DEVICE_TRY(failed(gate_.close(stream_), "closing the gate"));
  const CUresult started = stopwatch_.start();
  CUresult launched = CUDA_SUCCESS;
  if (replayed)
    launched = driver().cuGraphLaunch(timed.graph.exec, stream_);
  else
    result.code = launch(stream_);
  const CUresult stopped = stopwatch_.stop();
  if (!first) gate_.open();
  for (const CUresult error : {started, launched, stopped}) KL_DEVICE_TRY(failed(error, "enqueuing a timed call"));
  KL_DEVICE_TRY(failed(stopwatch_.wait(), "a timed call"));
  int64_t waited_ns = 0;
  KL_DEVICE_TRY(wait_for_device(waited_ns));
  if (!first) KL_DEVICE_TRY(waited_inside());
  KL_DEVICE_TRY(failed(stopwatch_.elapsed(result.span_ns), "reading events"));
  result.bracket_ns = replayed ? stopwatch_.graph_bracket_ns() : stopwatch_.bracket_ns();
  result.span_ns = std::max<int64_t>(1, result.span_ns - result.bracket_ns);
  if (replayed) result.graph_nodes = timed.graph.nodes;

  timed.busy_in_a_row = waited_ns > kIdle_ns ? timed.busy_in_a_row + 1 : 0;
  if (timed.busy_in_a_row >= kBusyInARow)
    return DeviceFault{Status::rejected, "side-stream",
                       fmt::format("the device was busy for {} us after the call's stream was done, {} calls in a row",
                                   waited_ns / 1000, timed.busy_in_a_row), false};
  // What cannot be captured was refused by the checked run; here it is launched as it is.
  if (first && may_replay && result.code == 0 && result.span_ns < kShort_ns) {
    Graph graph;
    if (!capture(launch, graph) && graph.nodes > 0) {
      KL_DEVICE_TRY(failed(driver().cuGraphUpload(graph.exec, stream_), "uploading a graph"));
      KL_DEVICE_TRY(settle("uploading a graph"));
      timed.graph = std::move(graph);
    }
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<DeviceHost>> open_host() {
  auto host = std::make_unique<CudaHost>();
  KL_CHECK(host->open());
  return std::unique_ptr<DeviceHost>(std::move(host));
}

}  // namespace kl::cuda
