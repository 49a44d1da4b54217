// What every device activity worked on, and by which rule that is known: by the range it was launched in (or its graph's
// node), else by the operator that launched it, else by its name.
#pragma once

#include <lab/trace/families.hpp>
#include <lab/trace/model.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kl::trace {

enum class Rule : uint8_t {
  none,
  range,       // launched inside a seam's range on that thread, or is such a range
  graph_node,  // the map written when the graph was captured
  parent,      // the operator that launched it
  name,        // its own name, as a last resort
};
std::string_view to_string(Rule rule);

struct Attributed {
  std::string_view seam;  // "rmsnorm/forward", "matmul/…"; empty: unknown. Lives as long as the model
  std::string_view family = kUnknownFamily;
  Rule rule = Rule::none;
  std::string_view detail;  // of parent and name: which rule of its table
  double confidence = 0;
};

// By activity, in the model's order. What they worked on is few things, kept once each: activities are millions.
class Attribution {
 public:
  size_t size() const { return which_.size(); }
  const Attributed& operator[](size_t activity) const { return things_[which_[activity]]; }
  // Index of the host call that enqueued it; kNone: not known.
  int64_t call(size_t activity) const { return calls_[activity]; }

 private:
  friend Attribution attribute(const TraceModel& model);
  std::vector<Attributed> things_;
  std::vector<uint32_t> which_;
  std::vector<int64_t> calls_;
};
Attribution attribute(const TraceModel& model);

// A name alone, where there is no more.
Attributed attribute_name(std::string_view kernel);
// "operator:mm", "name:softmax": which rule, for a person.
std::string rule_text(const Attributed& to);

// For each moment, the index of the latest begun of `ranges` that holds it; kNone: none does.
// Both sorted by time; ranges may nest and overlap.
std::vector<int64_t> innermost(std::span<const Span> ranges, std::span<const int64_t> moments);

}  // namespace kl::trace
