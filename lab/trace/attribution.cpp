#include <lab/trace/attribution.hpp>

#include <lab/trace/families.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

namespace kl::trace {
namespace {

struct CallKey {
  int64_t process, correlation;
  bool operator==(const CallKey&) const = default;
};
struct CallHash {
  size_t operator()(const CallKey& key) const {
    return std::hash<int64_t>{}(key.correlation * 0x9e3779b97f4a7c15LL ^ key.process);
  }
};

// The call that enqueued each activity: correlation ids repeat from process to process.
std::vector<int64_t> calls_of(const TraceModel& model) {
  std::unordered_map<CallKey, int64_t, CallHash> by_id;
  by_id.reserve(model.calls.size());
  for (size_t i = 0; i < model.calls.size(); ++i)
    if (model.calls[i].correlation != kNone)
      by_id.emplace(CallKey{model.calls[i].process, model.calls[i].correlation}, static_cast<int64_t>(i));
  std::vector<int64_t> calls(model.activities.size(), kNone);
  for (size_t i = 0; i < calls.size(); ++i) {
    const DeviceActivity& item = model.activities[i];
    if (item.correlation == kNone) continue;
    if (const auto it = by_id.find({item.process, item.correlation}); it != by_id.end()) calls[i] = it->second;
  }
  return calls;
}

template <class T, class Before>
std::vector<size_t> order_of(const std::vector<T>& items, Before before) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(items[a], items[b]); });
  return order;
}

struct Thread {
  std::vector<int64_t> ranges;  // indices, sorted by begin, the longer first
  std::vector<int64_t> calls;   // indices, sorted by begin
};

}  // namespace

std::string_view to_string(Rule rule) {
  return rule == Rule::range ? "range" : rule == Rule::graph_node ? "graph-node" : "none";
}

std::vector<int64_t> innermost(std::span<const Span> ranges, std::span<const int64_t> moments) {
  std::vector<int64_t> found(moments.size(), kNone);
  std::vector<int64_t> open;
  size_t next = 0;
  for (size_t i = 0; i < moments.size(); ++i) {
    for (; next < ranges.size() && ranges[next].begin <= moments[i]; ++next) open.push_back(static_cast<int64_t>(next));
    while (!open.empty() && ranges[static_cast<size_t>(open.back())].end <= moments[i]) open.pop_back();
    if (!open.empty()) found[i] = open.back();
  }
  return found;
}

std::vector<Attributed> attribute(const TraceModel& model) {
  std::vector<Attributed> result(model.activities.size());
  const std::vector<int64_t> calls = calls_of(model);
  std::map<int64_t, Thread> threads;
  for (const size_t i : order_of(model.ranges, [](const Range& a, const Range& b) {
         return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : a.span.end > b.span.end;
       }))
    if (model.ranges[i].kind == RangeKind::seam || model.ranges[i].kind == RangeKind::work)
      threads[model.ranges[i].thread].ranges.push_back(static_cast<int64_t>(i));
  for (const size_t i : order_of(model.calls, [](const HostCall& a, const HostCall& b) { return a.span.begin < b.span.begin; }))
    if (const auto thread = threads.find(model.calls[i].thread); thread != threads.end())
      thread->second.calls.push_back(static_cast<int64_t>(i));

  std::vector<int64_t> range_of_call(model.calls.size(), kNone);
  for (const auto& [id, thread] : threads) {
    std::vector<Span> spans;
    std::vector<int64_t> moments;
    for (const int64_t i : thread.ranges) spans.push_back(model.ranges[static_cast<size_t>(i)].span);
    for (const int64_t i : thread.calls) moments.push_back(model.calls[static_cast<size_t>(i)].span.begin);
    const auto found = innermost(spans, moments);
    for (size_t k = 0; k < found.size(); ++k)
      if (found[k] != kNone)
        range_of_call[static_cast<size_t>(thread.calls[k])] = thread.ranges[static_cast<size_t>(found[k])];
  }

  for (size_t i = 0; i < result.size(); ++i) {
    const DeviceActivity& item = model.activities[i];
    Attributed& to = result[i];
    to.call = calls[i];
    int64_t range = item.range;
    if (range == kNone && to.call != kNone) range = range_of_call[static_cast<size_t>(to.call)];
    if (const auto node = model.graph_nodes.find(item.graph_node);
        item.graph_node != kNone && node != model.graph_nodes.end())
      to = {node->second, Rule::graph_node, 1, to.call};
    else if (range != kNone)
      to = {model.names[model.ranges[static_cast<size_t>(range)].name], Rule::range, 1, to.call};
  }
  return result;
}

}  // namespace kl::trace
