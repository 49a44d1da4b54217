#include <lab/trace/diff.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace kl::trace {
namespace {

constexpr size_t kNamed = 3;  // of what grew and what shrank, in the verdict; the lists have all

bool has_timeline(const Summary& s) { return s.bottleneck.split.whole_ns > 0; }

TraceSide side_of(const Summary& s) {
  TraceSide side{"", s.format, s.source_version, s.window_ns, s.steps, {}, s.bottleneck.label};
  for (const auto& device : s.devices) side.devices.push_back(device.name);
  return side;
}

// One list by name, with the times of one unit.
struct Amount {
  double ns = 0, share = 0, count = 0;
};
using Amounts = std::map<std::string, Amount>;

std::vector<WorkChange> changes(const Amounts& before, const Amounts& after) {
  std::set<std::string> names;
  for (const auto* side : {&before, &after})
    for (const auto& [name, amount] : *side) names.insert(name);
  std::vector<WorkChange> list;
  for (const std::string& name : names) {
    const auto a = before.find(name), b = after.find(name);
    const Amount x = a == before.end() ? Amount{} : a->second, y = b == after.end() ? Amount{} : b->second;
    list.push_back({name, b == after.end() ? "before" : a == before.end() ? "after" : "both", x.ns, y.ns, y.ns - x.ns, x.share, y.share,
                    y.share - x.share, x.count, y.count, y.count - x.count});
  }
  return list;
}

Amounts families_of(const Summary& s, double units) {
  Amounts amounts;
  for (const auto& f : s.families)
    amounts[f.family] = {static_cast<double>(f.kernel_sum_ns) / units, f.share, static_cast<double>(f.count) / units};
  return amounts;
}

Amounts seams_of(const Summary& s, double units) {
  Amounts amounts;
  for (const auto& seam : s.seams) {
    int64_t calls = 0;
    for (const auto& [operation, count] : seam.calls) calls += count;
    amounts[seam.seam] = {static_cast<double>(seam.kernel_union_ns) / units, seam.share, static_cast<double>(calls) / units};
  }
  return amounts;
}

// In the order of the split, a part that is nothing in both left out.
std::vector<WorkChange> part_changes(const Summary& before, const Summary& after, double before_units, double after_units) {
  Amounts a, b;
  const auto fill = [](const Summary& s, double units, Amounts& to) {
    const BottleneckSplit& split = s.bottleneck.split;
    for (const SplitPart& part : split_parts())
      if (const auto ns = static_cast<double>(split.*part.ns); ns > 0)
        to[std::string(part.name)] = {ns / units, ns / static_cast<double>(split.whole_ns), 0};
  };
  fill(before, before_units, a);
  fill(after, after_units, b);
  std::vector<WorkChange> list = changes(a, b), ordered;
  for (const SplitPart& part : split_parts())
    for (auto& one : list)
      if (one.name == part.name) ordered.push_back(std::move(one));
  return ordered;
}

std::string joined(const std::vector<std::string>& words) { return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", ")); }

std::vector<std::string> notes_on(const Summary& a, const Summary& b, const TraceDiff& diff) {
  std::vector<std::string> notes;
  if (a.format != b.format)
    notes.push_back(fmt::format("different formats: {} and {}; what one tool records, the other may not", a.format, b.format));
  else if (a.source_version != b.source_version)
    notes.push_back(fmt::format("different versions of the tool: {} and {}", a.source_version, b.source_version));
  for (const auto& [s, which] : {std::pair{&a, "before"}, {&b, "after"}})
    if (!has_timeline(*s)) notes.push_back(fmt::format("{} has no timeline: sums by family are all that can be compared", which));
  if (has_timeline(a) && has_timeline(b)) {
    if (diff.before.devices != diff.after.devices)
      notes.push_back(fmt::format("different devices: {} and {}", joined(diff.before.devices), joined(diff.after.devices)));
    if (diff.per == "window")
      notes.push_back(fmt::format("per window, because {} no steps: {} and {} steps", a.steps == 0 && b.steps == 0 ? "neither has" : "one has",
                                  a.steps, b.steps));
    if (a.window_ns != b.window_ns)
      notes.push_back(fmt::format("windows of different length: {:.3f} ms and {:.3f} ms{}", static_cast<double>(a.window_ns) * 1e-6,
                                  static_cast<double>(b.window_ns) * 1e-6, diff.per == "window" ? "; compare shares, not times" : ""));
  }
  const auto gaps_of = [](const Summary& s) {
    std::set<std::string> gaps;
    for (const auto& gap : s.gaps) gaps.insert(gap.gap);
    return gaps;
  };
  const auto before_gaps = gaps_of(a), after_gaps = gaps_of(b);
  for (const auto& [own, other, which] : {std::tuple{&before_gaps, &after_gaps, "before"}, {&after_gaps, &before_gaps, "after"}})
    for (const auto& gap : *own)
      if (!other->contains(gap)) notes.push_back(fmt::format("only {} has the gap {}", which, gap));
  return notes;
}

// A line of the verdict, by how much of the unit it moved.
struct Moved {
  double by;
  std::string text;
};

std::string time_text(double ns) {
  const double size = std::abs(ns);
  if (size >= 1e9) return fmt::format("{:+.3g} s", ns * 1e-9);
  if (size >= 1e6) return fmt::format("{:+.3g} ms", ns * 1e-6);
  if (size >= 1e3) return fmt::format("{:+.3g} µs", ns * 1e-3);
  return fmt::format("{:+.3g} ns", ns);
}

std::vector<Moved> moved(const TraceDiff& diff, double unit_ns) {
  std::vector<Moved> list;
  const auto points = [&](const WorkChange& c, std::string_view name, std::string_view of) {
    list.push_back({c.change_share, fmt::format("{} {:+.1f} points of {}", name, 100 * c.change_share, of)});
  };
  const auto time = [&](const WorkChange& c, std::string_view name) {
    list.push_back({c.change_ns / unit_ns, fmt::format("{} {}", name, time_text(c.change_ns))});
  };
  if (diff.per != "step") {
    for (const auto& c : diff.parts) points(c, words_of_part(c.name), "the window");
    for (const auto& c : diff.families) points(c, c.name, "the kernels' time");
    return list;
  }
  // The families are the kernels: the part itself only when none of them says why it moved.
  bool named = false;
  for (const auto& c : diff.families) {
    named |= std::abs(c.change_ns) >= kLeastChange * unit_ns;
    time(c, c.name);
  }
  for (const auto& c : diff.parts)
    if (!named || c.name != split_parts().front().name) time(c, words_of_part(c.name));
  return list;
}

void judge_diff(TraceDiff& diff, double unit_ns) {
  std::vector<Moved> list = moved(diff, unit_ns);
  std::erase_if(list, [](const Moved& m) { return std::abs(m.by) < kLeastChange; });
  std::stable_sort(list.begin(), list.end(), [](const Moved& a, const Moved& b) { return std::abs(a.by) > std::abs(b.by); });
  for (const Moved& m : list) (m.by > 0 ? diff.grew : diff.shrank).push_back(m.text);
  const auto first = [](const std::vector<std::string>& all) {
    return fmt::format("{}{}", fmt::join(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, all.size())), ", "),
                       all.size() > kNamed ? " …" : "");
  };
  if (diff.per == "step")
    diff.verdict = fmt::format("a step went from {:.3f} ms to {:.3f} ms ({:+.2f} %)", diff.before_ns * 1e-6, diff.after_ns * 1e-6,
                               diff.before_ns > 0 ? 100 * diff.change_ns / diff.before_ns : 0.0);
  const auto add = [&](const std::string& clause) { diff.verdict += (diff.verdict.empty() ? "" : "; ") + clause; };
  if (!diff.grew.empty()) add("grew: " + first(diff.grew));
  if (!diff.shrank.empty()) add("shrank: " + first(diff.shrank));
  if (list.empty())
    add(fmt::format("no part and no family changed by {:g} {}", 100 * kLeastChange, diff.per == "step" ? "% of a step" : "points"));
}

}  // namespace

TraceDiff diff_summaries(const Summary& before, const Summary& after) {
  TraceDiff diff;
  diff.before = side_of(before);
  diff.after = side_of(after);
  const bool timed = has_timeline(before) && has_timeline(after);
  const bool by_step = timed && before.steps > 0 && after.steps > 0;
  diff.per = by_step ? "step" : timed ? "window" : "report";
  const double a = by_step ? static_cast<double>(before.steps) : 1, b = by_step ? static_cast<double>(after.steps) : 1;
  diff.before_ns = static_cast<double>(before.window_ns) / a;
  diff.after_ns = static_cast<double>(after.window_ns) / b;
  diff.change_ns = diff.after_ns - diff.before_ns;
  if (timed) {
    diff.parts = part_changes(before, after, a, b);
    diff.seams = changes(seams_of(before, a), seams_of(after, b));
  }
  diff.families = changes(families_of(before, a), families_of(after, b));
  for (auto* list : {&diff.families, &diff.seams})
    std::stable_sort(list->begin(), list->end(), [&](const WorkChange& x, const WorkChange& y) {
      return by_step ? std::abs(x.change_ns) > std::abs(y.change_ns) : std::abs(x.change_share) > std::abs(y.change_share);
    });
  diff.notes = notes_on(before, after, diff);
  // Of the longer unit, so that swapping the two gives the same lines with the other sign.
  judge_diff(diff, std::max({static_cast<double>(before.bottleneck.split.whole_ns) / a, static_cast<double>(after.bottleneck.split.whole_ns) / b, 1.0}));
  return diff;
}

}  // namespace kl::trace
