#include <trainer/cuda/graph.hpp>

#include <algorithm>

namespace kl::trainer::cuda {

Result<std::unique_ptr<Graph>> Graph::capture(cudaStream_t stream, Seams& seams, bool timed,
                                              const std::function<void()>& work) {
  std::unique_ptr<Graph> graph(new Graph(stream, timed));
  KL_CHECK(check(cudaGraphCreate(&graph->graph_, 0), "an empty graph"));
  KL_CHECK(graph->capture_work(seams, work));
  KL_CHECK(check(cudaGraphInstantiate(&graph->executable_, graph->graph_, 0), "making the step's graph executable"));
  KL_CHECK(check(cudaGraphUpload(graph->executable_, stream), "uploading the step's graph"));
  return graph;
}

Outcome Graph::capture_work(Seams& seams, const std::function<void()>& work) {
  KL_CHECK(check(cudaStreamBeginCaptureToGraph(stream_, graph_, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal),
                 "capturing the step"));
  seams.use(stream_, this);
  if (timed_) {
    begin_span("");
    end_span();
  }
  work();
  seams.use(stream_, nullptr);
  const Outcome launched = check(cudaGetLastError(), "capturing the step");
  cudaGraph_t captured = nullptr;
  const Outcome ended = check(cudaStreamEndCapture(stream_, &captured), "capturing the step");
  if (error_) return *error_;  // what went wrong first explains an invalid capture
  KL_CHECK(seams.fault());
  KL_CHECK(launched);
  return ended;
}

Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
}

Outcome Graph::launch() { return check(cudaGraphLaunch(executable_, stream_), "launching the step's graph"); }

void Graph::before_call(const std::string& seam, bool) {
  if (timed_) begin_span(seam);
  before_ = nodes_now();
}

void Graph::after_call(const std::string& seam, bool forward) {
  note(nodes_.record(seam, forward, before_, nodes_now()));
  if (timed_) end_span();
}

void Graph::begin_span(const std::string& seam) {
  Span& span = spans_.emplace_back();
  span.seam = seam;
  note(span.begin.create());
  note(span.end.create());
  note(check(cudaEventRecordWithFlags(span.begin.get(), stream_, cudaEventRecordExternal), "an event node"));
}

void Graph::end_span() {
  note(check(cudaEventRecordWithFlags(spans_.back().end.get(), stream_, cudaEventRecordExternal), "an event node"));
}

std::vector<NodeMap::Node> Graph::nodes_now() {
  size_t count = 0;
  note(check(cudaGraphGetNodes(graph_, nullptr, &count), "the nodes of the graph"));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) note(check(cudaGraphGetNodes(graph_, nodes.data(), &count), "the nodes of the graph"));
  return {nodes.begin(), nodes.end()};
}

void Graph::note(const Outcome& outcome) {
  if (!outcome.ok() && !error_) error_ = outcome.error();
}

Result<std::map<std::string, int64_t>> Graph::seam_ns() const {
  std::map<std::string, int64_t> result;
  int64_t nothing = 0;
  for (const Span& span : spans_) {
    KL_TRY(const int64_t ns, elapsed_ns(span.begin, span.end));
    if (span.seam.empty())
      nothing = ns;
    else
      result[span.seam] += std::max<int64_t>(0, ns - nothing);
  }
  return result;
}

}  // namespace kl::trainer::cuda
