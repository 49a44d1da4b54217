#include <lab/trace/summary.hpp>

#include <lab/trace/families.hpp>
#include <lab/trace/kernel_name.hpp>

#include <algorithm>
#include <tuple>

namespace kl::trace {
namespace {

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::vector<GapSummary> gaps_of(const TraceModel& model) {
  std::vector<GapSummary> gaps;
  for (const Gap& gap : model.gaps) gaps.push_back({std::string(to_string(gap.kind)), gap.what, gap.count});
  return gaps;
}

// What lies in the window, and how much of it.
class Window {
 public:
  explicit Window(Spans spans) : spans_(std::move(spans)) {}
  int64_t inside(const Span& s) const {
    auto it = std::partition_point(spans_.begin(), spans_.end(), [&](const Span& w) { return w.end <= s.begin; });
    int64_t sum = 0;
    for (; it != spans_.end() && it->begin < s.end; ++it) sum += std::min(it->end, s.end) - std::max(it->begin, s.begin);
    return sum;
  }
  // Its cut spans go to `to`; false when nothing of it is inside.
  bool cut(const Span& s, std::vector<Span>& to) const {
    auto it = std::partition_point(spans_.begin(), spans_.end(), [&](const Span& w) { return w.end <= s.begin; });
    bool any = false;
    for (; it != spans_.end() && it->begin < s.end; ++it, any = true)
      to.push_back({std::max(it->begin, s.begin), std::min(it->end, s.end)});
    return any;
  }
  const Spans& spans() const { return spans_; }

 private:
  Spans spans_;
};

// `busy`: when the device did anything.
DeviceSummary summarise_device(const TraceModel& model, const Window& window, const Device& device, Spans& busy) {
  DeviceSummary d;
  d.index = device.index;
  d.name = device.name;
  std::vector<Span> kernels, copies, others;
  kernels.reserve(model.activities.size());
  for (const DeviceActivity& item : model.activities) {
    if (item.device != device.index) continue;
    const int64_t ns = window.inside(item.span);
    std::vector<Span>& to = item.kind == ActivityKind::kernel ? kernels : item.kind == ActivityKind::copy ? copies : others;
    if (!window.cut(item.span, to)) continue;
    if (item.kind == ActivityKind::kernel) {
      ++d.kernels;
      d.kernel_sum_ns += ns;
    } else if (item.kind == ActivityKind::copy) {
      ++d.copies;
      d.copy_sum_ns += ns;
    }
  }
  kernels = union_of(std::move(kernels));
  copies = union_of(std::move(copies));
  d.kernel_union_ns = length(kernels);
  d.copy_union_ns = length(copies);
  d.exposed_copy_ns = length(subtract(copies, kernels));
  busy = unite(unite(std::move(kernels), std::move(copies)), union_of(std::move(others)));
  d.busy_union_ns = length(busy);
  if (!busy.empty()) d.span_ns = busy.back().end - busy.front().begin;
  d.idle_ns = length(window.spans()) - d.busy_union_ns;
  return d;
}

// Without steps every call of the trace counts: the first launch lies before the first item.
HostSummary summarise_host(const TraceModel& model, const Window& steps, const Spans& busy) {
  Spans whole;
  if (model.steps().empty() && !model.chosen) {
    std::vector<Span> calls;
    for (const HostCall& call : model.calls) calls.push_back(call.span);
    calls = union_of(std::move(calls));
    if (!calls.empty()) whole = {{calls.front().begin, calls.back().end}};
  }
  const Window window(whole.empty() ? steps.spans() : whole);
  HostSummary host;
  std::vector<Span> syncs;
  for (const HostCall& call : model.calls) {
    const int64_t ns = window.inside(call.span);
    if (call.kind == CallKind::launch && ns > 0) {
      ++host.launches;
      host.launch_sum_ns += ns;
    }
    if (call.kind != CallKind::sync) continue;
    host.sync_sum_ns += ns;
    window.cut(call.span, syncs);
  }
  const Spans waiting = union_of(std::move(syncs));
  host.sync_union_ns = length(waiting);
  host.sync_while_busy_ns = length(intersect(waiting, busy));
  return host;
}

struct FamilySpans {
  FamilySummary summary;
  std::map<int64_t, std::vector<Span>> by_device;
};

struct SeamSpans {
  SeamSummary summary;
  std::vector<Span> spans;
};

// Families, seams and kernels are sums over the same activities.
void summarise_work(const TraceModel& model, const Window& window, const Attribution& attributed,
                    bool with_kernels, Summary& summary) {
  std::map<std::string_view, FamilySpans> families;
  std::map<std::string_view, SeamSpans> seams;
  std::map<std::tuple<NameId, std::string_view, std::string>, KernelSummary> kernels;  // one name may be known by several rules
  const auto kernel = [&](NameId name, const Attributed& to) -> KernelSummary& {
    std::string rule = rule_text(to);
    KernelSummary& k = kernels[{name, to.family, rule}];
    if (k.count == 0)
      k = {model.names[name], normalise_kernel_name(model.names[name]), std::string(to.family), std::move(rule), to.confidence, 0, 0};
    return k;
  };
  int64_t all = 0, unknown = 0;
  for (size_t i = 0; i < model.activities.size(); ++i) {
    const DeviceActivity& item = model.activities[i];
    if (item.kind != ActivityKind::kernel) continue;
    const int64_t ns = window.inside(item.span);
    if (ns <= 0) continue;
    const Attributed& to = attributed[i];
    const std::string_view subject = subject_of(to.seam);
    all += ns;
    if (to.family == kUnknownFamily) unknown += ns;
    FamilySpans& f = families[to.family];
    f.summary.kernel_sum_ns += ns;
    ++f.summary.count;
    window.cut(item.span, f.by_device[item.device]);
    if (!to.seam.empty()) {
      SeamSpans& s = seams[subject];
      ++s.summary.calls[std::string(part_of(to.seam))];
      s.summary.kernel_sum_ns += ns;
      s.summary.rule = to_string(to.rule);
      s.summary.confidence = to.confidence;
      window.cut(item.span, s.spans);
    }
    if (!with_kernels) continue;
    KernelSummary& k = kernel(item.name, to);
    ++k.count;
    k.total_ns += ns;
  }
  for (const WorkTotal& total : model.totals) {
    if (total.kind != ActivityKind::kernel) continue;
    const Attributed to = attribute_name(model.names[total.name]);
    all += total.total_ns;
    if (to.family == kUnknownFamily) unknown += total.total_ns;
    FamilySummary& f = families[to.family].summary;
    f.kernel_sum_ns += total.total_ns;
    f.count += total.count;
    if (!with_kernels) continue;
    KernelSummary& k = kernel(total.name, to);
    k.count += total.count;
    k.total_ns += total.total_ns;
  }
  summary.unknown_share = share(unknown, all);
  const int64_t whole = summary.window_ns * static_cast<int64_t>(summary.devices.size());
  for (auto& [name, f] : families) {
    f.summary.family = name;
    f.summary.share = share(f.summary.kernel_sum_ns, all);
    for (auto& [device, spans] : f.by_device) f.summary.kernel_union_ns += length(union_of(std::move(spans)));
    if (!f.by_device.empty()) f.summary.window_share = share(f.summary.kernel_union_ns, whole);
    summary.families.push_back(std::move(f.summary));
  }
  for (auto& [name, seam] : seams) {
    seam.summary.seam = name;
    seam.summary.kernel_union_ns = length(union_of(std::move(seam.spans)));
    seam.summary.share = share(seam.summary.kernel_union_ns, summary.window_ns);
    summary.seams.push_back(std::move(seam.summary));
  }
  for (auto& [key, one] : kernels) summary.kernels.push_back(std::move(one));
  const auto longest = [](auto& list, auto length_of) {
    std::stable_sort(list.begin(), list.end(), [&](const auto& a, const auto& b) { return length_of(a) > length_of(b); });
  };
  longest(summary.families, [](const FamilySummary& f) { return f.kernel_sum_ns; });
  longest(summary.seams, [](const SeamSummary& s) { return s.kernel_union_ns; });
  longest(summary.kernels, [](const KernelSummary& k) { return k.total_ns; });
}

}  // namespace

ImportRecord describe_import(const TraceModel& model) {
  auto record = new_record<ImportRecord>();
  record.status = model.activities.empty() && model.totals.empty() ? Status::insufficient_trace_data : Status::ok;
  record.format = model.format;
  record.source_version = model.source_version;
  record.devices = static_cast<int64_t>(model.devices.size());
  for (const DeviceActivity& item : model.activities)
    ++(item.kind == ActivityKind::kernel ? record.kernels : item.kind == ActivityKind::copy ? record.copies : record.sets);
  record.calls = static_cast<int64_t>(model.calls.size());
  record.ranges = static_cast<int64_t>(model.ranges.size());
  record.steps = static_cast<int64_t>(model.steps().size());
  record.totals = static_cast<int64_t>(model.totals.size());
  record.gaps = gaps_of(model);
  return record;
}

Summary summarise(const TraceModel& model, bool with_kernels) {
  Summary summary;
  summary.format = model.format;
  summary.source_version = model.source_version;
  summary.gaps = gaps_of(model);
  const Window window(model.window());
  summary.window_ns = length(window.spans());
  for (const Range& range : model.ranges) summary.steps += range.kind == RangeKind::step;
  const Attribution attributed = attribute(model);
  BottleneckSplit split, in_graphs;
  Spans busy;
  int64_t items = 0, busy_ns = 0;
  const IdleSplitter splitter(model, attributed);
  OpportunityFinder opportunities(model, attributed, splitter);
  for (const Device& device : model.devices) {
    Spans device_busy;
    const DeviceSummary d = summarise_device(model, window, device, device_busy);
    items += d.kernels + d.copies;
    busy_ns += d.busy_union_ns;
    split.whole_ns += summary.window_ns;
    split.kernel_ns += d.kernel_union_ns;
    split.exposed_copy_ns += d.busy_union_ns - d.kernel_union_ns;
    const Spans idle = subtract(window.spans(), device_busy);
    splitter.add(device.index, idle, split, &in_graphs);
    opportunities.add_device(device.index, window.spans(), idle, d.exposed_copy_ns);
    busy = unite(std::move(busy), std::move(device_busy));
    summary.devices.push_back(d);
  }
  summary.host = summarise_host(model, window, busy);
  summary.covered_share = share(busy_ns, split.whole_ns);
  summarise_work(model, window, attributed, with_kernels, summary);
  std::sort(summary.devices.begin(), summary.devices.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  summary.bottleneck = judge(split, items, model.gaps);
  summary.opportunities = opportunities.found(split, in_graphs);
  return summary;
}

}  // namespace kl::trace
