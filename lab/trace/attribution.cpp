#include <lab/trace/attribution.hpp>

#include <lab/trace/kernel_name.hpp>
#include <lab/trace/name_rules.hpp>
#include <lab/trace/operator_rules.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace kl::trace {
namespace {

// The first of sorted `items` that is not `below`, quickly found near `hint`.
template <class T, class Below>
size_t lower_bound_from(const std::vector<T>& items, size_t hint, Below below) {
  if (hint > items.size() || (hint > 0 && !below(items[hint - 1]))) hint = 0;
  size_t step = 1;
  while (hint + step < items.size() && below(items[hint + step])) step *= 2;
  const auto from = items.begin() + static_cast<std::ptrdiff_t>(hint);
  const auto to = items.begin() + static_cast<std::ptrdiff_t>(std::min(hint + step + 1, items.size()));
  return static_cast<size_t>(std::partition_point(from, to, below) - items.begin());
}

// Correlation ids repeat from process to process.
struct NumberedCall {
  int64_t process, correlation, index;
  auto key() const { return std::tie(process, correlation); }
};

// The call that enqueued each activity, of several with its number the first. Both lists mostly come in the order of their
// numbers, so each search begins where the last one ended; a hash table of as many calls is slower to fill than all of it.
std::vector<int64_t> calls_of(const TraceModel& model) {
  std::vector<NumberedCall> numbered;
  numbered.reserve(model.calls.size());
  for (size_t i = 0; i < model.calls.size(); ++i)
    if (model.calls[i].correlation != kNone) numbered.push_back({model.calls[i].process, model.calls[i].correlation, static_cast<int64_t>(i)});
  const auto lower = [](const NumberedCall& a, const NumberedCall& b) { return a.key() < b.key(); };
  if (!std::is_sorted(numbered.begin(), numbered.end(), lower)) std::stable_sort(numbered.begin(), numbered.end(), lower);
  std::vector<int64_t> calls(model.activities.size(), kNone);
  size_t last = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const DeviceActivity& item = model.activities[i];
    if (item.correlation == kNone) continue;
    const auto wanted = std::tie(item.process, item.correlation);
    last = lower_bound_from(numbered, last, [&](const NumberedCall& call) { return call.key() < wanted; });
    if (last < numbered.size() && numbered[last].key() == wanted) calls[i] = numbered[last].index;
  }
  return calls;
}

// Of one thread, sorted by begin, the longer first; each with its index in the model.
struct Placed {
  Span span;
  int64_t index;
};
struct Thread {
  std::vector<Placed> ranges, operators, calls;
};

void sort(std::vector<Placed>& items) {
  const auto before = [](const Placed& a, const Placed& b) {
    return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : a.span.end > b.span.end;
  };
  if (!std::is_sorted(items.begin(), items.end(), before)) std::sort(items.begin(), items.end(), before);
}

// Where calls begin on one thread, in order; finding is quick for one who comes in order, too.
class Moments {
 public:
  explicit Moments(const std::vector<Placed>& calls) : calls_(calls) {}
  bool any_in(const Span& span) {
    last_ = lower_bound_from(calls_, last_, [&](const Placed& call) { return call.span.begin < span.begin; });
    return last_ < calls_.size() && calls_[last_].span.begin < span.end;
  }

 private:
  const std::vector<Placed>& calls_;
  size_t last_ = 0;  // every call before it began before the last span asked for
};

// The calls of every thread, and those ranges of seams and other work, and of operators, in which one began: traces have many
// more ranges than kernels.
std::map<int64_t, Thread> threads_of(const TraceModel& model) {
  enum class Says : char { unasked, nothing, an_operator };
  std::vector<Says> names(model.names.size(), Says::unasked);
  const auto is_operator = [&](NameId name) {
    if (names[name] == Says::unasked) names[name] = rule_of_operator(model.names[name]) == nullptr ? Says::nothing : Says::an_operator;
    return names[name] == Says::an_operator;
  };
  std::map<int64_t, Thread> threads;
  for (size_t i = 0; i < model.calls.size(); ++i)
    threads[model.calls[i].thread].calls.push_back({model.calls[i].span, static_cast<int64_t>(i)});
  std::map<int64_t, Moments> moments;
  for (auto& [id, thread] : threads) {
    sort(thread.calls);
    moments.emplace(id, Moments(thread.calls));
  }
  for (size_t i = 0; i < model.ranges.size(); ++i) {
    const Range& range = model.ranges[i];
    const bool work = range.kind == RangeKind::seam || range.kind == RangeKind::work;
    if (!work && (range.kind != RangeKind::user || !is_operator(range.name))) continue;
    const auto calls = moments.find(range.thread);
    if (calls == moments.end() || !calls->second.any_in(range.span)) continue;
    Thread& thread = threads[range.thread];
    (work ? thread.ranges : thread.operators).push_back({range.span, static_cast<int64_t>(i)});
  }
  for (auto& [id, thread] : threads) {
    sort(thread.ranges);
    sort(thread.operators);
  }
  return threads;
}

void in_seam(std::string_view seam, Rule rule, Attributed& to) {
  to.seam = seam;
  to.family = family_of_work(seam.starts_with("trainer/") ? seam : subject_of(seam));
  to.rule = rule;
  to.confidence = 1;
}

template <class R>
void take(const R& by, std::string_view detail, Rule rule, Attributed& to) {
  to.family = by.family;
  to.rule = rule;
  to.detail = detail;
  to.confidence = by.confidence;
}

// A product, a convolution or an attention that its operator prepares: kernels that only bring its arguments into another
// layout or clear its result are not that work, if their names say so without doubt.
bool prepares(const OperatorRule& op, const NameRule& kernel) {
  constexpr double kNoDoubt = 0.85;
  return (op.family == "conv" || op.family == "matmul" || op.family == "flash_attention") && kernel.family == "data_movement" &&
         kernel.confidence >= kNoDoubt;
}

// By operator and by name: few texts, each asked for once.
class Texts {
 public:
  explicit Texts(const TraceModel& model) : names_(model.names), by_operator_(names_.size()), by_name_(names_.size()) {}

  // `op`: the operator that launched it, or kNoName.
  void attribute(const DeviceActivity& item, NameId op, Attributed& to) {
    const auto of_kernel = [](const std::string& name) { return rule_of_kernel(normalise_kernel_name(name)); };
    const OperatorRule* parent = op == kNoName ? nullptr : once(by_operator_, op, rule_of_operator);
    const NameRule* own = once(by_name_, item.name, of_kernel);
    if (parent != nullptr && (own == nullptr || !prepares(*parent, *own))) return take(*parent, parent->op, Rule::parent, to);
    if (own != nullptr) take(*own, own->id, Rule::name, to);
  }

 private:
  template <class R>
  using Known = std::vector<std::optional<const R*>>;
  template <class R, class Find>
  const R* once(Known<R>& known, NameId id, Find find) {
    if (!known[id]) known[id] = find(names_[id]);
    return *known[id];
  }
  const Names& names_;
  Known<OperatorRule> by_operator_;
  Known<NameRule> by_name_;
};

// By call of the model, the innermost of the thread's `ranges` in which it began.
void place(const std::vector<Placed>& calls, const std::vector<Placed>& ranges, std::vector<int64_t>& range_of_call) {
  std::vector<Span> spans;
  std::vector<int64_t> moments;
  spans.reserve(ranges.size());
  moments.reserve(calls.size());
  for (const Placed& range : ranges) spans.push_back(range.span);
  for (const Placed& call : calls) moments.push_back(call.span.begin);
  const auto found = innermost(spans, moments);
  for (size_t k = 0; k < found.size(); ++k)
    if (found[k] != kNone) range_of_call[static_cast<size_t>(calls[k].index)] = ranges[static_cast<size_t>(found[k])].index;
}

}  // namespace

std::string_view to_string(Rule rule) {
  switch (rule) {
    case Rule::range: return "range";
    case Rule::graph_node: return "graph-node";
    case Rule::parent: return "operator";
    case Rule::name: return "name";
    case Rule::none: break;
  }
  return "none";
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

Attributed attribute_name(std::string_view kernel) {
  Attributed to;
  if (const NameRule* rule = rule_of_kernel(normalise_kernel_name(kernel))) take(*rule, rule->id, Rule::name, to);
  return to;
}

std::string rule_text(const Attributed& to) {
  std::string text(to_string(to.rule));
  return to.detail.empty() ? text : text + ':' + std::string(to.detail);
}

std::vector<Attributed> attribute(const TraceModel& model) {
  std::vector<Attributed> result(model.activities.size());
  const std::vector<int64_t> calls = calls_of(model);
  std::vector<int64_t> range_of_call(model.calls.size(), kNone), operator_of_call;
  for (const auto& [id, thread] : threads_of(model)) {
    place(thread.calls, thread.ranges, range_of_call);
    if (thread.operators.empty()) continue;
    operator_of_call.resize(model.calls.size(), kNone);
    place(thread.calls, thread.operators, operator_of_call);
  }

  const auto operator_of = [&](const DeviceActivity& item, int64_t call) {
    if (item.op != kNoName || call == kNone || operator_of_call.empty()) return item.op;
    const int64_t range = operator_of_call[static_cast<size_t>(call)];
    return range == kNone ? kNoName : model.ranges[static_cast<size_t>(range)].name;
  };
  Texts texts(model);
  for (size_t i = 0; i < result.size(); ++i) {
    const DeviceActivity& item = model.activities[i];
    Attributed& to = result[i];
    to.call = calls[i];
    int64_t range = item.range;
    if (range == kNone && to.call != kNone) range = range_of_call[static_cast<size_t>(to.call)];
    if (const auto node = model.graph_nodes.find(item.graph_node);
        item.graph_node != kNone && node != model.graph_nodes.end())
      in_seam(node->second, Rule::graph_node, to);
    else if (range != kNone)
      in_seam(model.names[model.ranges[static_cast<size_t>(range)].name], Rule::range, to);
    else if (item.kind == ActivityKind::kernel)
      texts.attribute(item, operator_of(item, to.call), to);
  }
  return result;
}

}  // namespace kl::trace
