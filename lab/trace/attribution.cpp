#include <lab/trace/attribution.hpp>

#include <lab/trace/kernel_name.hpp>
#include <lab/trace/name_rules.hpp>
#include <lab/trace/operator_rules.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <unordered_map>

namespace kl::trace {
namespace {

// The call that enqueued each activity, of several with its number the first. Both lists mostly come in the order of their
// numbers, so each search begins where the last one ended; a hash table of as many calls is slower to fill than all of it.
std::vector<int64_t> calls_of(const TraceModel& model) {
  // Correlation ids repeat from process to process.
  const auto number = [](const auto& item) { return std::tie(item.process, item.correlation); };
  const auto lower = [&](const HostCall& a, const HostCall& b) { return number(a) < number(b); };
  const bool in_order = std::is_sorted(model.calls.begin(), model.calls.end(), lower);
  std::vector<size_t> order;  // of those with a number, unless they are in order as they are
  for (size_t i = 0; !in_order && i < model.calls.size(); ++i)
    if (model.calls[i].correlation != kNone) order.push_back(i);
  const auto lower_at = [&](size_t a, size_t b) { return lower(model.calls[a], model.calls[b]); };
  if (!std::is_sorted(order.begin(), order.end(), lower_at)) std::stable_sort(order.begin(), order.end(), lower_at);
  const size_t count = in_order ? model.calls.size() : order.size();
  const auto call_at = [&](size_t place) { return in_order ? place : order[place]; };
  std::vector<int64_t> calls(model.activities.size(), kNone);
  size_t last = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const DeviceActivity& item = model.activities[i];
    if (item.correlation == kNone) continue;
    last = lower_bound_from(count, last, [&](size_t place) { return number(model.calls[call_at(place)]) < number(item); });
    if (last == count) continue;
    const size_t call = call_at(last);
    if (number(model.calls[call]) == number(item)) calls[i] = static_cast<int64_t>(call);
  }
  return calls;
}

// Of one thread: indices in the model, sorted by begin, the longer first. A trace may have many millions of ranges, but not
// 2^32: they would take 200 GB.
using Indices = std::vector<uint32_t>;
struct Thread {
  Indices ranges, operators, calls;
};

template <class Item>
void sort(Indices& indices, const std::vector<Item>& items) {
  const auto before = [&](uint32_t i, uint32_t j) {
    const Span &a = items[i].span, &b = items[j].span;
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  };
  if (!std::is_sorted(indices.begin(), indices.end(), before)) std::sort(indices.begin(), indices.end(), before);
}

// Where calls begin on one thread, in order; finding is quick for one who comes in order, too.
class Moments {
 public:
  Moments(const Indices& of_thread, const std::vector<HostCall>& calls) : of_thread_(of_thread), calls_(calls) {}
  bool any_in(const Span& span) {
    last_ = lower_bound_from(of_thread_.size(), last_, [&](size_t i) { return begin(i) < span.begin; });
    return last_ < of_thread_.size() && begin(last_) < span.end;
  }

 private:
  int64_t begin(size_t i) const { return calls_[of_thread_[i]].span.begin; }
  const Indices& of_thread_;
  const std::vector<HostCall>& calls_;
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
  if (model.ranges.empty()) return threads;
  for (size_t i = 0; i < model.calls.size(); ++i)
    threads[model.calls[i].thread].calls.push_back(static_cast<uint32_t>(i));
  std::map<int64_t, Moments> moments;
  for (auto& [id, thread] : threads) {
    sort(thread.calls, model.calls);
    moments.emplace(id, Moments(thread.calls, model.calls));
  }
  for (size_t i = 0; i < model.ranges.size(); ++i) {
    const Range& range = model.ranges[i];
    const bool work = range.kind == RangeKind::seam || range.kind == RangeKind::work;
    if (!work && (range.kind != RangeKind::user || !is_operator(range.name))) continue;
    const auto calls = moments.find(range.thread);
    if (calls == moments.end() || !calls->second.any_in(range.span)) continue;
    Thread& thread = threads[range.thread];
    (work ? thread.ranges : thread.operators).push_back(static_cast<uint32_t>(i));
  }
  for (auto& [id, thread] : threads) {
    sort(thread.ranges, model.ranges);
    sort(thread.operators, model.ranges);
  }
  return threads;
}

Attributed in_seam(std::string_view seam, Rule rule) {
  Attributed to;
  to.seam = seam;
  to.family = family_of_work(seam.starts_with("trainer/") ? seam : subject_of(seam));
  to.rule = rule;
  to.confidence = 1;
  return to;
}

template <class R>
Attributed known_by(const R& by, std::string_view detail, Rule rule) {
  Attributed to;
  to.family = by.family;
  to.rule = rule;
  to.detail = detail;
  to.confidence = by.confidence;
  return to;
}

// A product, a convolution or an attention that its operator prepares: kernels that only bring its arguments into another
// layout or clear its result are not that work, if their names say so without doubt.
bool prepares(const OperatorRule& op, const NameRule& kernel) {
  constexpr double kNoDoubt = 0.85;
  return (op.family == "conv" || op.family == "matmul" || op.family == "flash_attention") && kernel.family == "data_movement" &&
         kernel.confidence >= kNoDoubt;
}

// By the operator that launched it, if that is known, and by its own name.
Attributed by_texts(const std::string* op, std::string_view name) {
  const OperatorRule* parent = op == nullptr ? nullptr : rule_of_operator(*op);
  const NameRule* own = rule_of_kernel(normalise_kernel_name(name));
  if (parent != nullptr && (own == nullptr || !prepares(*parent, *own))) return known_by(*parent, parent->op, Rule::parent);
  return own == nullptr ? Attributed() : known_by(*own, own->id, Rule::name);
}

// What each combination of a source and a number of it means, worked out once.
class Meanings {
 public:
  enum Source { by_node, by_range, by_text };
  explicit Meanings(std::vector<Attributed>& things) : things_(things) {}
  template <class Work>
  uint32_t once(Source source, uint64_t number, Work work) {
    const auto [it, is_new] = known_[source].try_emplace(number, static_cast<uint32_t>(things_.size()));
    if (is_new) things_.push_back(work());
    return it->second;
  }

 private:
  std::array<std::unordered_map<uint64_t, uint32_t>, 3> known_;
  std::vector<Attributed>& things_;
};

// found(moment, range) for every moment that one of the ranges holds: the latest begun of those.
template <class SpanAt, class MomentAt, class Found>
void sweep(size_t ranges, SpanAt span_at, size_t moments, MomentAt moment_at, Found found) {
  std::vector<size_t> open;
  size_t next = 0;
  for (size_t i = 0; i < moments; ++i) {
    const int64_t moment = moment_at(i);
    for (; next < ranges && span_at(next).begin <= moment; ++next) open.push_back(next);
    while (!open.empty() && span_at(open.back()).end <= moment) open.pop_back();
    if (!open.empty()) found(i, open.back());
  }
}

// By call of the model, the innermost of the thread's `ranges` in which it began.
void place(const TraceModel& model, const Indices& calls, const Indices& ranges, std::vector<int64_t>& range_of_call) {
  sweep(
      ranges.size(), [&](size_t r) -> const Span& { return model.ranges[ranges[r]].span; }, calls.size(),
      [&](size_t i) { return model.calls[calls[i]].span.begin; },
      [&](size_t i, size_t r) { range_of_call[calls[i]] = ranges[r]; });
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
  sweep(
      ranges.size(), [&](size_t r) { return ranges[r]; }, moments.size(), [&](size_t i) { return moments[i]; },
      [&](size_t i, size_t r) { found[i] = static_cast<int64_t>(r); });
  return found;
}

Attributed attribute_name(std::string_view kernel) {
  return by_texts(nullptr, kernel);
}

std::string rule_text(const Attributed& to) {
  std::string text(to_string(to.rule));
  return to.detail.empty() ? text : text + ':' + std::string(to.detail);
}

Attribution attribute(const TraceModel& model) {
  Attribution result;
  result.calls_ = calls_of(model);
  std::vector<int64_t> range_of_call(model.calls.size(), kNone), operator_of_call;
  for (const auto& [id, thread] : threads_of(model)) {
    place(model, thread.calls, thread.ranges, range_of_call);
    if (thread.operators.empty()) continue;
    operator_of_call.resize(model.calls.size(), kNone);
    place(model, thread.calls, thread.operators, operator_of_call);
  }

  const auto operator_of = [&](const DeviceActivity& item, int64_t call) {
    if (item.op != kNoName || call == kNone || operator_of_call.empty()) return item.op;
    const int64_t range = operator_of_call[static_cast<size_t>(call)];
    return range == kNone ? kNoName : model.ranges[static_cast<size_t>(range)].name;
  };
  result.things_.emplace_back();  // the first: nothing is known
  Meanings meanings(result.things_);
  const auto meaning = [&](const DeviceActivity& item, int64_t call) -> uint32_t {
    if (item.graph_node != kNone)
      if (const auto node = model.graph_nodes.find(item.graph_node); node != model.graph_nodes.end())
        return meanings.once(Meanings::by_node, static_cast<uint64_t>(item.graph_node), [&] { return in_seam(node->second, Rule::graph_node); });
    int64_t range = item.range;
    if (range == kNone && call != kNone) range = range_of_call[static_cast<size_t>(call)];
    if (range != kNone) {
      const NameId name = model.ranges[static_cast<size_t>(range)].name;
      return meanings.once(Meanings::by_range, name, [&] { return in_seam(model.names[name], Rule::range); });
    }
    if (item.kind != ActivityKind::kernel) return 0;
    const NameId op = operator_of(item, call);
    return meanings.once(Meanings::by_text, uint64_t{op} << 32 | item.name,
                         [&] { return by_texts(op == kNoName ? nullptr : &model.names[op], model.names[item.name]); });
  };
  result.which_.reserve(model.activities.size());
  for (size_t i = 0; i < model.activities.size(); ++i) result.which_.push_back(meaning(model.activities[i], result.calls_[i]));
  return result;
}

}  // namespace kl::trace
