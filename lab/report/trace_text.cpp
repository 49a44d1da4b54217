#include <lab/report/trace_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verdict.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kl {
namespace {

constexpr size_t kMostKernels = 25;  // in text; the record has all

std::string ns_text(int64_t ns) { return duration_text(static_cast<double>(ns) * 1e-9); }

std::string share_of(int64_t part, int64_t whole) {
  return whole > 0 ? share_text(static_cast<double>(part) / static_cast<double>(whole)) : "–";
}

std::string devices_text(const trace::Summary& s, const Style& style) {
  Table table({">device", "", ">kernels", ">sum", ">union", ">copies", ">union", ">exposed", ">busy", ">idle"});
  for (const auto& d : s.devices)
    table.row({std::to_string(d.index), d.name, count_text(d.kernels), ns_text(d.kernel_sum_ns), ns_text(d.kernel_union_ns),
               count_text(d.copies), ns_text(d.copy_union_ns), ns_text(d.exposed_copy_ns), share_of(d.busy_union_ns, s.window_ns),
               ns_text(d.idle_ns)});
  return table.text(style);
}

std::string seams_text(const trace::Summary& s, const Style& style) {
  Table table({"work", ">calls", ">time", ">share", "known by"});
  for (const auto& seam : s.seams) {
    int64_t calls = 0;
    for (const auto& [operation, count] : seam.calls) calls += count;
    table.row({seam.seam, count_text(calls), ns_text(seam.kernel_union_ns), share_text(seam.share), seam.rule});
  }
  return table.empty() ? "" : table.text(style);
}

std::string split_text(const trace::BottleneckSplit& split, const Style& style) {
  Table table({"the window went to", ">time", ">share"});
  for (const trace::SplitPart& part : trace::split_parts())
    if (const int64_t ns = split.*part.ns; ns > 0) table.row({std::string(part.words), ns_text(ns), share_of(ns, split.whole_ns)});
  return table.text(style);
}

std::string opportunities_text(const trace::Summary& s, const Style& style) {
  Table table({"beyond faster kernels", ">at most", ">share", "because"});
  for (const auto& o : s.opportunities) table.row({o.name, ns_text(o.gain_ns), share_text(o.share), o.reason});
  return table.empty() ? "" : table.text(style);
}

std::string unit_text(const trace::TraceSide& side, std::string_view which, const Style& style) {
  std::string text = fmt::format("  {:7}{} {}: {}, {}", which, side.format, side.source_version, ns_text(side.window_ns),
                                 side.steps == 0 ? "steps unknown" : count_text(side.steps) + " steps");
  return text + fmt::format(", {}{}\n", side.bottleneck, side.file.empty() ? "" : "  " + style.dim(side.file));
}

std::string points_text(double share) { return fmt::format("{:+.1f}", 100 * share); }

std::string changes_text(std::string title, const std::vector<trace::WorkChange>& list, const Style& style) {
  Table table({std::move(title), ">before", ">after", ">change", ">share", ">share", ">points", "only in"});
  for (const auto& c : list)
    table.row({c.name, duration_text(c.before_ns * 1e-9), duration_text(c.after_ns * 1e-9), signed_duration_text(c.change_ns * 1e-9), share_text(c.before_share),
               share_text(c.after_share), points_text(c.change_share), c.held_by == "both" ? "" : c.held_by});
  return table.empty() ? "" : table.text(style);
}

}  // namespace

std::string diff_text(const trace::TraceDiff& d, const Style& style) {
  std::string text = fmt::format("{}, times of one {}\n", style.bold("trace diff"), d.per);
  text += unit_text(d.before, "before", style) + unit_text(d.after, "after", style);
  for (const auto& note : d.notes) text += fmt::format("  {} {}\n", style.warn("note:"), note);
  std::vector<trace::WorkChange> parts = d.parts;
  for (auto& part : parts) part.name = trace::words_of_part(part.name);
  text += changes_text(d.per + " went to", parts, style) + changes_text("work", d.seams, style) + changes_text("family", d.families, style);
  return text + fmt::format("{} {}\n", style.bold("verdict:"), d.verdict);
}

std::string trace_change_text(const TraceChange& change, const Style& style) {
  return fmt::format("{} from {} to {}\n", style.bold("the last two traces of the preset"), change.before_at.substr(0, 19),
                     change.after_at.substr(0, 19)) + diff_text(change.diff, style);
}

std::string capture_text(const CaptureRecord& record, const Style& style) {
  std::string text = fmt::format("{} of preset {}, engine {}, tool {}\n", style.bold("capture"), or_none(record.preset),
                                 record.engine, record.tool);
  if (!record.seam.empty()) text += fmt::format("  the workspace's kernel ran in seam {}\n", record.seam);
  if (record.status == Status::ok) {
    text += fmt::format("  {} steps of {} ({} in all) after {} of warm-up; {} ranges cover {} of them\n", count_text(record.steps),
                        ns_text(record.window_ns / std::max<int64_t>(record.steps, 1)), ns_text(record.window_ns), record.warmup_steps,
                        count_text(record.ranges), share_text(record.covered_share));
    text += std::isfinite(record.overhead.high)
                ? fmt::format("  a captured step takes {} against the uncaptured ones beside it, 95 % [{}, {}]\n",
                              percent_text(std::expm1(record.overhead.estimate)), percent_text(std::expm1(record.overhead.low)),
                              percent_text(std::expm1(record.overhead.high)))
                : "  too few steps to say what capturing costs\n";
    for (const auto& file : record.report_files)
      text += fmt::format("  {} ({})\n", file.path, bytes_text(static_cast<double>(file.bytes)));
    double bytes = 0;
    for (const auto& file : record.tensor_files) bytes += static_cast<double>(file.bytes);
    if (!record.tensor_files.empty())
      text += fmt::format("  {}/: what the seams were called with, {} files ({}), for verify --tensors\n", tensor_folder(record.prefix).string(),
                          record.tensor_files.size(), bytes_text(bytes));
  }
  text += fmt::format("  {}\n", metadata_file(record.prefix).string());
  return text + verdict_line(style, record.status, record.status == Status::ok ? "captured" : record.reason, record.remedy);
}

std::string import_text(const trace::ImportRecord& r, const Style& style) {
  std::string text = fmt::format("{} of {}{}\n", style.bold("trace"), r.format, r.source_version.empty() ? "" : ", version " + r.source_version);
  std::string held;
  for (const auto& [count, what] : {std::pair{r.kernels, "kernels"}, {r.copies, "copies"}, {r.sets, "memory sets"}, {r.devices, "devices"},
                                    {r.calls, "calls of the host"}, {r.steps, "steps"}, {r.ranges - r.steps, "ranges"},
                                    {r.totals, "sums by kernel, without moments"}})
    if (count > 0) held += fmt::format("{}{} {}", held.empty() ? "" : ", ", count_text(count), what);
  text += fmt::format("  holds {}\n", held.empty() ? "nothing" : held);
  for (const auto& gap : r.gaps) text += fmt::format("  {} {}\n", style.warn(gap.gap + ":"), gap.what);
  return text + fmt::format("{}: read it with `kernel-lab trace summary`\n", r.imported);
}

std::string summary_text(const trace::Summary& s, const Style& style) {
  std::string text = fmt::format("{} {} {}: {}, {}\n", style.bold("trace"), s.format, s.source_version, ns_text(s.window_ns),
                                 s.steps == 0 ? "steps unknown" : count_text(s.steps) + " steps");
  if (!s.window.empty()) text += fmt::format("  of it {} was chosen\n", s.window);
  for (const auto& gap : s.gaps) text += fmt::format("  {} {}\n", style.warn(gap.gap + ":"), gap.what);
  text += devices_text(s, style) + seams_text(s, style);
  Table families({"family", ">count", ">time", ">share"});
  for (const auto& f : s.families) families.row({f.family, count_text(f.count), ns_text(f.kernel_sum_ns), share_text(f.share)});
  if (!families.empty()) text += families.text(style);
  if (s.host.launches > 0 || s.host.sync_sum_ns > 0)
    text += fmt::format("  host: {} launches in {}; synchronising {}, of that {} while a device worked\n", count_text(s.host.launches),
                        ns_text(s.host.launch_sum_ns), ns_text(s.host.sync_union_ns), ns_text(s.host.sync_while_busy_ns));
  Table kernels({"kernel", ">count", ">time", "family"});
  for (size_t i = 0; i < std::min(s.kernels.size(), kMostKernels); ++i)
    kernels.row({s.kernels[i].name.substr(0, 80), count_text(s.kernels[i].count), ns_text(s.kernels[i].total_ns), s.kernels[i].family});
  if (!kernels.empty()) text += kernels.text(style);
  text += split_text(s.bottleneck.split, style) + opportunities_text(s, style);
  return text + fmt::format("{} {}: {}\n", style.bold("bottleneck:"), s.bottleneck.label, s.bottleneck.reason);
}

}  // namespace kl
