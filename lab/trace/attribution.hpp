// Which seam and which step every device activity belongs to, and by which rule that is known.
#pragma once

#include <lab/trace/model.hpp>

#include <string_view>
#include <vector>

namespace kl::trace {

enum class Rule : uint8_t {
  none,
  range,       // launched inside a seam's range on that thread, or is such a range
  graph_node,  // the map written when the graph was captured
};
std::string_view to_string(Rule rule);

struct Attributed {
  std::string_view seam;  // "rmsnorm/forward", "matmul/…"; empty: unknown. Lives as long as the model
  Rule rule = Rule::none;
  double confidence = 0;
  int64_t call = kNone;  // index of the host call that enqueued it
};

// By activity, in the model's order.
std::vector<Attributed> attribute(const TraceModel& model);

// For each moment, the index of the latest begun of `ranges` that holds it; kNone: none does.
// Both sorted by time; ranges may nest and overlap.
std::vector<int64_t> innermost(std::span<const Span> ranges, std::span<const int64_t> moments);

}  // namespace kl::trace
