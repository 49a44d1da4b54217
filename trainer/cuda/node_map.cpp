#include <trainer/cuda/node_map.hpp>

#include <unordered_set>

namespace kl::trainer::cuda {

Outcome NodeMap::record(const std::string& seam, bool forward, std::span<const Node> before,
                        std::span<const Node> after) {
  const std::unordered_set<Node> known(before.begin(), before.end());
  int64_t added = 0;
  for (const Node node : after)
    if (!known.contains(node)) {
      seams_[node] = seam;
      ++added;
    }
  if (added == 0)
    return make_error(Status::execution_failed,
                      seam + (forward ? " forward" : " backward") +
                          " left no node in the step's graph: its work would not be part of the step",
                      "launch on the stream that run is given, in every call");
  SeamCounts& counts = counts_[seam];
  ++counts.calls[forward ? KL_FORWARD : KL_BACKWARD];
  counts.graph_nodes += added;
  return {};
}

const std::string* NodeMap::seam_of(Node node) const {
  const auto found = seams_.find(node);
  return found == seams_.end() ? nullptr : &found->second;
}

}  // namespace kl::trainer::cuda
