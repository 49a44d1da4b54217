// A step captured once and replayed: the executable graph, and which of its nodes are whose.
#pragma once

#include <trainer/cuda/device.hpp>
#include <trainer/cuda/node_map.hpp>
#include <trainer/cuda/seam.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace kl::trainer::cuda {

class Graph : private CallWatch {
 public:
  // What `work` launches on the stream. With `timed`, events stand around every call of a seam.
  static Result<std::unique_ptr<Graph>> capture(cudaStream_t stream, Seams& seams, bool timed,
                                                const std::function<void()>& work);
  ~Graph() override;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Outcome launch();
  const NodeMap& nodes() const { return nodes_; }
  // Of the last replay, which has ended: time between the events around each seam's calls, less
  // that between two events with nothing between them.
  Result<std::map<std::string, int64_t>> seam_ns() const;

 private:
  struct Span {
    std::string seam;
    Event begin, end;
  };
  Graph(cudaStream_t stream, bool timed) : stream_(stream), timed_(timed) {}
  Outcome capture_work(Seams& seams, const std::function<void()>& work);
  void before_call(const std::string& seam, bool forward) override;
  void after_call(const std::string& seam, bool forward) override;
  void begin_span(const std::string& seam);
  void end_span();
  std::vector<NodeMap::Node> nodes_now();
  void note(const Outcome& outcome);

  cudaStream_t stream_;
  bool timed_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  NodeMap nodes_;
  std::vector<NodeMap::Node> before_;
  std::deque<Span> spans_;  // the first is empty
  std::optional<Error> error_;
};

}  // namespace kl::trainer::cuda
