// A gate in a stream: what is enqueued behind it starts together, whatever enqueuing took.
#pragma once

#include <engines/cuda/context.hpp>

namespace kl::cuda {

class Gate {
 public:
  CUresult create(Context& context);
  ~Gate();

  // Closes the stream for what follows, until `open` or the time limit.
  CUresult close(CUstream stream);
  void open();
  // The last gate gave up waiting: something behind it waited for the device.
  bool gave_up() const;

 private:
  static constexpr uint64_t kTimeout_ns = 2'000'000'000;
  Context* context_ = nullptr;
  volatile uint32_t* words_ = nullptr;  // pinned: ticket that may pass, ticket that gave up
  CUdeviceptr mapped_ = 0;
  uint32_t ticket_ = 0;
};

// Spans between two events, with what the bracket around a call adds to them.
class Stopwatch {
 public:
  CUresult create(Context& context, Gate& gate, CUstream stream);
  ~Stopwatch();

  CUresult start() { return context_->driver().cuEventRecord(begin_, stream_); }
  CUresult stop() { return context_->driver().cuEventRecord(end_, stream_); }
  // After `stop` has happened on the device.
  CUresult elapsed(int64_t& ns) const;
  // Spins until the device has passed `stop`.
  CUresult wait() const;

  int64_t bracket_ns() const { return bracket_ns_; }              // around launches
  int64_t graph_bracket_ns() const { return graph_bracket_ns_; }  // around the launch of a graph
  int64_t empty_bracket_ns() const { return empty_bracket_ns_; }  // around nothing: shorter than both

 private:
  CUresult measure_brackets();
  template <class Enqueue>
  CUresult median_gated(Enqueue&& enqueue, int64_t& ns);

  Context* context_ = nullptr;
  Gate* gate_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
  int64_t bracket_ns_ = 0, graph_bracket_ns_ = 0, empty_bracket_ns_ = 0;
};

}  // namespace kl::cuda
