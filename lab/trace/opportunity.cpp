#include <lab/trace/opportunity.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

namespace kl::trace {
namespace {

constexpr std::array<std::string_view, 3> kPointwise = {"data_movement", "elementwise", "fused_mlp_act"};

bool is_pointwise(const DeviceActivity& item, const Attributed& to) {
  return item.kind == ActivityKind::kernel && std::find(kPointwise.begin(), kPointwise.end(), to.family) != kPointwise.end();
}

struct Runs {
  int64_t runs = 0, kernels = 0, kernel_ns = 0;
  std::vector<Span> gaps;
};

// The run that grows on one stream.
struct Growing {
  int64_t end = 0;       // of the last item
  int64_t length = 0;    // of the last item
  bool pointwise = false;
  int64_t kernels = 0, kernel_ns = 0;
  std::vector<Span> gaps;
};

void close(Growing& run, Runs& to) {
  if (run.kernels >= kLeastRun) {
    ++to.runs;
    to.kernels += run.kernels;
    to.kernel_ns += run.kernel_ns;
    to.gaps.insert(to.gaps.end(), run.gaps.begin(), run.gaps.end());
  }
  run.kernels = run.kernel_ns = 0;
  run.gaps.clear();
}

bool inside(const Spans& window, const Span& span) {
  const auto it = std::partition_point(window.begin(), window.end(), [&](const Span& w) { return w.end <= span.begin; });
  return it != window.end() && it->begin <= span.begin && span.end <= it->end;
}

// Activities in the order of their begins, unless they are in it.
std::vector<size_t> order_of(const std::vector<DeviceActivity>& items) {
  const auto earlier = [](const DeviceActivity& a, const DeviceActivity& b) { return a.span.begin < b.span.begin; };
  if (std::is_sorted(items.begin(), items.end(), earlier)) return {};
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return earlier(items[a], items[b]); });
  return order;
}

// Idle because the next kernel was not there yet. Waiting in a synchronise or a copy call has another remedy.
int64_t not_launched(const BottleneckSplit& split) { return split.idle_launch_ns + split.idle_host_ns + split.idle_unknown_ns; }

}  // namespace

OpportunityFinder::OpportunityFinder(const TraceModel& model, const Attribution& attributed, const IdleSplitter& splitter)
    : model_(model), splitter_(splitter), order_(order_of(model.activities)) {
  for (size_t i = 0; i < attributed.size(); ++i) pointwise_.push_back(is_pointwise(model.activities[i], attributed[i]));
}

void OpportunityFinder::add_device(int64_t device, const Spans& window, const Spans& idle, int64_t exposed_copy_ns) {
  exposed_copy_ns_ += exposed_copy_ns;
  Runs found;
  std::map<int64_t, Growing> streams;
  for (size_t n = 0; n < model_.activities.size(); ++n) {
    const size_t i = order_.empty() ? n : order_[n];
    const DeviceActivity& item = model_.activities[i];
    if (item.device != device) continue;
    Growing& run = streams[item.stream];
    const bool pointwise = pointwise_[i] && inside(window, item.span);
    const Span gap{run.end, item.span.begin};
    const int64_t length = item.span.length();
    const bool linked = pointwise && run.pointwise && gap.length() >= std::max<int64_t>({length, run.length, 1}) &&
                        gap.length() <= kMostGapNs && inside(window, gap);
    if (!linked) close(run, found);
    if (linked) run.gaps.push_back(gap);
    if (pointwise) {
      ++run.kernels;
      run.kernel_ns += length;
    }
    run.pointwise = pointwise;
    run.length = length;
    run.end = std::max(run.end, item.span.end);
  }
  for (auto& [stream, run] : streams) close(run, found);
  fusion_.runs += found.runs;
  fusion_.kernels += found.kernels;
  fusion_.kernel_ns += found.kernel_ns;
  // Where another stream works nothing is lost.
  splitter_.add(device, intersect(union_of(std::move(found.gaps)), idle), run_gaps_, &run_gaps_in_graphs_);
}

std::vector<Opportunity> OpportunityFinder::found(const BottleneckSplit& split, const BottleneckSplit& in_graphs) const {
  std::vector<Opportunity> list;
  for (const Gap& gap : model_.gaps)
    if (gap.kind == GapKind::outside_ranges || gap.kind == GapKind::no_timeline) return list;
  const auto add = [&](Opportunity one, std::string_view name, int64_t gain_ns, std::string reason) {
    if (gain_ns <= 0) return;
    one.name = name;
    one.gain_ns = gain_ns;
    one.share = static_cast<double>(gain_ns) / static_cast<double>(split.whole_ns);
    one.reason = std::move(reason);
    list.push_back(std::move(one));
  };
  add(fusion_, kLaunchFusion, not_launched(run_gaps_),
      fmt::format("{} run{} of {} short pointwise kernels, each gap at least as long as the kernels beside it", fusion_.runs,
                  fusion_.runs == 1 ? "" : "s", fusion_.kernels));
  // Between the kernels of a run the host is late because of launching alone, whatever it does between two calls.
  const auto of_launching = [](const BottleneckSplit& all, const BottleneckSplit& runs) {
    return all.idle_launch_ns + not_launched(runs) - runs.idle_launch_ns;
  };
  add({}, kWholeStepCapture, of_launching(split, run_gaps_) - of_launching(in_graphs, run_gaps_in_graphs_),
      "idle time that launching causes: a step that is replayed as one graph launches nothing");
  add({}, kDataMovement, exposed_copy_ns_, "copies while no kernel ran");
  std::stable_sort(list.begin(), list.end(), [](const Opportunity& a, const Opportunity& b) { return a.gain_ns > b.gain_ns; });
  return list;
}

}  // namespace kl::trace
