// Which seam each node of a captured step belongs to. A graph that is replayed calls no library:
// what a step did follows from the nodes that the calls left in it, times the replays.
#pragma once

#include <lab/core/result.hpp>
#include <trainer/library_seam.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace kl::trainer::cuda {

class NodeMap {
 public:
  using Node = const void*;

  // A call of a seam's library, with the graph's nodes before and after it. A call that left no
  // node is an error: its work would not be part of the step.
  Outcome record(const std::string& seam, bool forward, std::span<const Node> before,
                 std::span<const Node> after);
  // Null for a node of the step itself.
  const std::string* seam_of(Node node) const;
  // Calls and nodes of one replay, by seam.
  const std::map<std::string, SeamCounts>& of_replay() const { return counts_; }

 private:
  std::map<Node, std::string> seams_;
  std::map<std::string, SeamCounts> counts_;
};

}  // namespace kl::trainer::cuda
