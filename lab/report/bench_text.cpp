#include <lab/report/bench_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verdict.hpp>

#include <fmt/format.h>

#include <cmath>

namespace kl {
namespace {

std::string axes_text(const std::map<std::string, int64_t>& axes) {
  std::string text;
  for (const auto& [name, length] : axes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, length);
  return text;
}

bool has_times(const BenchRecord& record) { return record.ratio > 0 && record.processes > 0; }

std::string interval_text(const stats::Interval& interval) {
  return fmt::format("[{}, {}]", percent_text(std::expm1(interval.low)), percent_text(std::expm1(interval.high)));
}

}  // namespace

std::string bench_sentence(const BenchRecord& record) {
  if (!record.proof.empty()) return fmt::format("{}: {}", record.rule, record.proof);
  if (!has_times(record)) return record.reason;
  std::string text = fmt::format("{} seam time per step against the {} ({} → {}), 95 % {}",
                                 percent_text(record.ratio - 1), record.baseline,
                                 duration_text(record.baseline_time.cold_ns_per_step * 1e-9),
                                 duration_text(record.candidate.cold_ns_per_step * 1e-9),
                                 interval_text(record.t95));
  if (record.status == Status::inconclusive)
    text += fmt::format("; {}{}", record.reason,
                        record.samples_needed > 0 ? fmt::format(", {} processes would decide", record.samples_needed) : "");
  return text;
}

std::string bench_text(const BenchRecord& record, const Style& style) {
  std::string text = fmt::format("{} {} on {} against the {} ({}, preset {}, seed {})\n", style.bold("bench"),
                                 record.target, record.engine, record.baseline, record.mode, or_none(record.preset), record.seed);
  text += compile_lines(style, record.compile);
  if (has_times(record)) {
    Table table({"operation", "shape", ">calls/step", ">" + record.baseline, ">candidate", ">ratio", ">warm ratio",
                 ">GB/s", ">of ceiling"});
    for (const auto& c : record.cases)
      table.row({c.operation, axes_text(c.axes), c.calls_per_step > 0 ? count_text(c.calls_per_step) : "beside",
                 duration_text(c.baseline_cold_ns * 1e-9), duration_text(c.candidate_cold_ns * 1e-9),
                 fmt::format("{:.3f}", c.candidate_cold_ns / c.baseline_cold_ns),
                 fmt::format("{:.3f}", c.candidate_warm_ns / c.baseline_warm_ns),
                 fmt::format("{:.1f}", c.candidate_gb_per_s),
                 c.candidate_percent_of_ceiling ? fmt::format("{:.0f} %", *c.candidate_percent_of_ceiling) : "–"});
    text += table.text(style);
    text += fmt::format("  decides: cold seam time per step, ratio {:.4f}; 95 % t {}, signed-rank {}; δ {}\n",
                        record.ratio, interval_text(record.t95), interval_text(record.walsh95),
                        share_text(record.delta));
    text += fmt::format("  {} processes, {} ABBA blocks, {} timed calls, {} calls verified; controls: {}\n",
                        record.processes, count_text(record.blocks), count_text(record.timed_calls),
                        count_text(record.calls_checked), record.controls.result);
    if (record.blocks_set_aside > 0)
      text += fmt::format("  {} blocks repeated: the machine was disturbed while they ran\n",
                          count_text(record.blocks_set_aside));
  }
  return text + verdict_line(style, record.status, bench_sentence(record), record.remedy);
}

}  // namespace kl
