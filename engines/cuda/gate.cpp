#include <engines/cuda/gate.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

namespace kl::cuda {

// Returns the first error of the driver.
#define KL_CU(expr)                                            \
  if (const CUresult kl_cu = (expr); kl_cu != CUDA_SUCCESS) return kl_cu

CUresult Gate::create(Context& context) {
  context_ = &context;
  void* memory = nullptr;
  KL_CU(context.driver().cuMemHostAlloc(&memory, 2 * sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
  words_ = static_cast<volatile uint32_t*>(memory);
  words_[0] = 0;
  words_[1] = 0;
  return context.driver().cuMemHostGetDevicePointer(&mapped_, memory, 0);
}

Gate::~Gate() {
  if (words_ != nullptr) context_->driver().cuMemFreeHost(const_cast<uint32_t*>(words_));
}

CUresult Gate::close(CUstream stream) {
  ++ticket_;
  return context_->launch("kl_gate", 1, 1, stream, mapped_, mapped_ + sizeof(uint32_t), ticket_, kTimeout_ns);
}

void Gate::open() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  words_[0] = ticket_;
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Gate::gave_up() const { return words_[1] == ticket_; }

CUresult Stopwatch::create(Context& context, Gate& gate, CUstream stream) {
  context_ = &context;
  gate_ = &gate;
  stream_ = stream;
  KL_CU(context.driver().cuEventCreate(&begin_, CU_EVENT_DEFAULT));
  KL_CU(context.driver().cuEventCreate(&end_, CU_EVENT_DEFAULT));
  return measure_brackets();
}

Stopwatch::~Stopwatch() {
  for (const CUevent event : {begin_, end_})
    if (event != nullptr) context_->driver().cuEventDestroy(event);
}

CUresult Stopwatch::elapsed(int64_t& ns) const {
  float ms = 0;
  KL_CU(context_->driver().cuEventElapsedTime(&ms, begin_, end_));
  ns = std::llround(static_cast<double>(ms) * 1e6);
  return CUDA_SUCCESS;
}

CUresult Stopwatch::wait() const {
  CUresult state = CUDA_ERROR_NOT_READY;
  while (state == CUDA_ERROR_NOT_READY) state = context_->driver().cuEventQuery(end_);
  return state;
}

template <class Enqueue>
CUresult Stopwatch::median_gated(Enqueue&& enqueue, int64_t& ns) {
  constexpr int kSamples = 101;
  std::vector<int64_t> samples;
  for (int i = 0; i < kSamples; ++i) {
    KL_CU(gate_->close(stream_));
    KL_CU(start());
    const CUresult enqueued = enqueue();
    const CUresult stopped = stop();
    gate_->open();
    KL_CU(enqueued);
    KL_CU(stopped);
    KL_CU(wait());
    int64_t sample = 0;
    KL_CU(elapsed(sample));
    samples.push_back(sample);
  }
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  ns = samples[kSamples / 2];
  return CUDA_SUCCESS;
}

// Two events with a kernel between them are further apart than their empty bracket and the kernel
// together, so the bracket is what is left of a kernel whose duration is known.
CUresult Stopwatch::measure_brackets() {
  constexpr uint64_t kSpin_ns = 2000;
  // CUPTI counts starting and ending a kernel in its duration: 580 to 643 ns beyond spins of 1.5 to
  // 9.5 us on an H200. That share stays in the calls' spans, so that they mean what CUPTI's do.
  constexpr int64_t kStartAndEnd_ns = 610;
  constexpr int64_t kDuration_ns = static_cast<int64_t>(kSpin_ns) + kStartAndEnd_ns;
  const Driver& driver = context_->driver();
  const auto spin = [&] { return context_->launch("kl_spin", 1, 1, stream_, kSpin_ns); };
  KL_CU(spin());
  KL_CU(driver.cuStreamSynchronize(stream_));
  KL_CU(median_gated([] { return CUDA_SUCCESS; }, empty_bracket_ns_));
  int64_t span_ns = 0;
  KL_CU(median_gated(spin, span_ns));
  bracket_ns_ = std::max<int64_t>(0, span_ns - kDuration_ns);

  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  KL_CU(driver.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  const CUresult launched = spin();
  KL_CU(driver.cuStreamEndCapture(stream_, &graph));
  KL_CU(launched);
  CUresult error = driver.cuGraphInstantiateWithFlags(&exec, graph, 0);
  driver.cuGraphDestroy(graph);
  KL_CU(error);
  error = driver.cuGraphUpload(exec, stream_);
  if (error == CUDA_SUCCESS) error = median_gated([&] { return driver.cuGraphLaunch(exec, stream_); }, span_ns);
  driver.cuGraphExecDestroy(exec);
  graph_bracket_ns_ = std::max<int64_t>(0, span_ns - kDuration_ns);
  return error;
}

}  // namespace kl::cuda
