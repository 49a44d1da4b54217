#include <lab/report/evidence_page.hpp>

#include <lab/bench/verdict.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/external.hpp>
#include <lab/report/bench_text.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/plots.hpp>
#include <lab/report/verify_text.hpp>
#include <lab/stats/quantile.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kl {
namespace {

using Report = EvidenceReport;

constexpr size_t kDrawnComparisons = 4;  // the newest; the history has all

std::string when(const std::string& utc) {
  std::string text = utc.substr(0, 19);
  std::replace(text.begin(), text.end(), 'T', ' ');
  return text;
}

Tone tone_of(std::string_view status) {
  const auto known = status_from_string(status);
  if (!known) return Tone::plain;
  switch (exit_code_of(*known)) {
    case ExitCode::done: return Tone::good;
    case ExitCode::negative:
    case ExitCode::internal:
    case ExitCode::usage: return Tone::bad;
    case ExitCode::undecided:
    case ExitCode::unavailable: return Tone::warn;
  }
  return Tone::plain;
}
Cell status_cell(const std::string& status) { return {status, tone_of(status)}; }
Cell code(const std::string& text) { return {text, Tone::code}; }
Cell hash_cell(const std::string& hash) { return code(short_hash(hash)); }

Tone tone_of_state(std::string_view state) {
  if (state == "promoted" || state == "integration-validated") return Tone::good;
  if (state == "integration-regressed") return Tone::bad;
  if (state == "stale" || state == "integration-mixed" || state == "integration-tested") return Tone::warn;
  return Tone::plain;
}

std::string change(double log_ratio) { return percent_text(std::expm1(log_ratio)); }
std::string speed(double log_ratio) { return percent_text(std::expm1(-log_ratio)); }
bool bounded(const stats::Interval& interval) { return std::isfinite(interval.low) && std::isfinite(interval.high); }
std::string range(const stats::Interval& interval, double sign) {
  if (!bounded(interval)) return "unbounded: too few samples";
  const double ends[] = {std::expm1(sign * interval.low), std::expm1(sign * interval.high)};
  return fmt::format("{} to {}", percent_text(std::min(ends[0], ends[1])), percent_text(std::max(ends[0], ends[1])));
}
std::string does_not_count(const EvidenceLine& line) { return fmt::format("{}", fmt::join(line.because, "; ")); }

// The lab's trainer can run the target, if only as a stand-in for a traced program.
bool runs_in_trainer(const Report& r) {
  return is_external(r.assessment.preset) ? !r.assessment.stand_in_preset.empty() : !r.seam.empty();
}

// A command of this report's target, for sections that lack their evidence.
CommandBlock command(const Report& r, std::string_view verb, std::string why) {
  const Assessment& a = r.assessment;
  const bool external = is_external(a.preset);
  const std::string& runs = external && verb != "verify" && verb != "trace-profile" ? a.stand_in_preset : a.preset;
  const std::string preset = runs.empty() ? "" : " --preset " + shell_word(runs);
  const std::string workspace = " --workspace " + shell_word(a.workspace.empty() ? "workspaces/" + a.target : a.workspace);
  std::string text = fmt::format("{} {}", r.command_prefix, verb);
  if (verb == "bench" || verb == "integration-ab" || verb == "verify") text += workspace + preset;
  if (verb == "capture") text += fmt::format("{} --output captures/{}", preset, shell_word(a.preset));
  if (verb == "calibrate") text += preset;
  if (verb == "trace-profile") text += " --trace FILE" + preset;
  return {text, std::move(why)};
}

void note_standing(Section& section, const EvidenceLine& line) {
  if (!line.counts && !line.because.empty())
    section.blocks.push_back(Paragraph{fmt::format("This does not count now: {}.", does_not_count(line)), Tone::warn});
}

// State and next step -------------------------------------------------------------------------

std::string gain_words(const Assessment& a) {
  std::string text;
  if (a.seam_share) text = fmt::format("{} of the step ({})", share_text(*a.seam_share, 2), a.share_from);
  if (a.gain_bound)
    text += fmt::format("; at most {} of the step to gain, {} needed", share_text(*a.gain_bound, 2), share_text(a.gain_threshold, 2));
  return text;
}

PageTable questions(const Report& r) {
  const Assessment& a = r.assessment;
  PageTable table("The four questions", {"question", "answer", "in numbers"});
  const Cell none{"not on file", Tone::warn};
  const auto standing = [](const EvidenceLine& line, const std::string& sentence) {
    return line.counts || line.because.empty() ? sentence : sentence + " (does not count now: " + does_not_count(line) + ")";
  };
  if (r.verify)
    table.row({"Is it right?", status_cell(r.verify->line.status), standing(r.verify->line, verify_sentence(r.verify->record))});
  else
    table.row({"Is it right?", none, ""});
  const Cell faster{"Is it faster alone?", Tone::plain, "bench"};
  if (r.bench)
    table.row({faster, status_cell(r.bench->line.status), standing(r.bench->line, bench_sentence(r.bench->record))});
  else
    table.row({faster, none, ""});
  const Cell trainer{"Does the trainer get faster?", Tone::plain, "trainer"};
  const auto ab = std::find_if(r.comparisons.begin(), r.comparisons.end(), [](const auto& run) { return run.line.counts; });
  if (ab != r.comparisons.end())
    table.row({trainer, status_cell(ab->line.status), ab->record.explanation});
  else if (!r.comparisons.empty())
    table.row({trainer, status_cell(r.comparisons.front().line.status),
               standing(r.comparisons.front().line, r.comparisons.front().record.explanation)});
  else
    table.row({trainer, none, ""});
  const Cell matters{"Can it matter?", Tone::plain, "share"};
  if (a.seam_share)
    table.row({matters, a.relevance.empty() ? Cell("not judged") : Cell(fmt::format("{} relevance, says {}", a.relevance, a.relevance_by)),
               gain_words(a)});
  else
    table.row({matters, none, ""});
  return table;
}

Section state_section(const Report& r) {
  const Assessment& a = r.assessment;
  Section section{"state", "State and next step", {}};
  section.blocks.push_back(Paragraph{fmt::format("State {}; promotion-check answers {}.", a.state, a.answer)});
  if (!a.next.command.empty()) section.blocks.push_back(CommandBlock{a.next.command, a.next.why});
  if (!a.blockers.empty()) section.blocks.push_back(List{"What stands between here and promotion", a.blockers});
  section.blocks.push_back(questions(r));
  if (r.bench || !r.comparisons.empty()) {
    const LineChanges* lines = r.comparisons.empty() ? nullptr : &r.comparisons.front().record.lines;
    if (lines != nullptr)
      section.blocks.push_back(Paragraph{fmt::format("The price: {} lines added, {} removed.", lines->added, lines->removed)});
  }
  if (!a.diagnosis.empty())
    section.blocks.push_back(Paragraph{fmt::format("The champion's seam is {} (deep-profile, confidence {:.2f}).", a.diagnosis,
                                                   a.diagnosis_confidence.value_or(0))});
  if (!a.moves.empty()) section.blocks.push_back(List{"What demoted this target or brought it back", a.moves});
  if (!a.notes.empty()) section.blocks.push_back(List{"Beside it", a.notes});
  if (!r.unreadable.empty()) section.blocks.push_back(List{"Records that could not be read", r.unreadable});
  return section;
}

// A/B in the trainer --------------------------------------------------------------------------

IntervalPlot::Row speed_row(std::string label, const stats::Interval& interval, double log_ratio, bool decides) {
  IntervalPlot::Row row{std::move(label), std::expm1(-log_ratio), {}, {}, decides};
  if (bounded(interval)) {
    row.low = std::expm1(-interval.high);
    row.high = std::expm1(-interval.low);
  }
  return row;
}

Drawing pairs_drawing(const Reported<IntegrationRecord>& run) {
  const auto& [line, commit, dirty, record] = run;
  const stats::AbLook& look = record.look;
  IntervalPlot plot{"speed-up of the training step", "slower", "faster", {}, {}, std::expm1(-look.delta), std::expm1(look.delta),
                    fmt::format("does not count: ±{}", share_text(look.delta, 2))};
  for (const Pair& pair : record.pairs)
    plot.points.push_back({fmt::format("pair {} {}", pair.index + 1, pair.order), std::expm1(-pair.log_ratio), {}, {}, false});
  plot.intervals.push_back(speed_row("decides", look.interval, look.mean_log_ratio, true));
  plot.intervals.push_back(speed_row("95 % t", look.t_95, look.mean_log_ratio, false));
  if (bounded(look.walsh_95)) plot.intervals.push_back(speed_row("signed-rank", look.walsh_95, look.walsh_95.estimate, false));
  const std::string words =
      fmt::format("{} pairs against the {}: speed-up {}, interval that decides {} to {}, effects under {} do not count.", record.pairs.size(),
                  record.against, percent_text(look.speed_up), percent_text(look.speed_up_low), percent_text(look.speed_up_high),
                  share_text(look.delta, 2));
  Drawing drawing;
  drawing.svg = interval_plot(plot, words);
  drawing.caption = fmt::format(
      "Each pair of training runs in the order it ran (A is the {}), and the intervals of their mean. Look {} of the schedule, critical t "
      "{:.2f}.", record.against, look.look, look.critical_t);
  drawing.words = words;
  return drawing;
}

PageTable pairs_table(const IntegrationRecord& record) {
  PageTable table("Pairs and intervals in numbers", {"", ">" + record.against + " step", ">candidate step", ">speed-up"}, true);
  for (const Pair& pair : record.pairs)
    table.row({fmt::format("pair {} {}", pair.index + 1, pair.order), duration_text(pair.baseline.step_ns * 1e-9),
               duration_text(pair.candidate.step_ns * 1e-9), speed(pair.log_ratio)});
  const stats::AbLook& look = record.look;
  table.row({fmt::format("mean of {} pairs", look.pairs), "", "", percent_text(look.speed_up)});
  table.row({"interval that decides", "", "", range(look.interval, -1)});
  table.row({"95 % t interval", "", "", range(look.t_95, -1)});
  table.row({"95 % signed-rank interval", "", "",
             bounded(look.walsh_95) ? fmt::format("{}, {}", speed(look.walsh_95.estimate), range(look.walsh_95, -1))
                                    : range(look.walsh_95, -1)});
  table.row({"effects that do not count", "", "", fmt::format("±{}", share_text(look.delta, 2))});
  return table;
}

PageTable ab_table(const IntegrationRecord& record) {
  const stats::AbLook& look = record.look;
  PageTable table("What was asked of the candidate", {"", "", "seen"});
  const auto gate = [&](const char* name, const Gate& g) {
    table.row({name, !g.ran ? Cell("not run", Tone::warn) : g.passed ? Cell("pass", Tone::good) : Cell("fail", Tone::bad), g.text});
  };
  gate("the candidate ran", record.gates.calls);
  gate("L0 finite", record.gates.l0);
  gate("L1 replay", record.gates.l1);
  gate("L2 divergence", record.gates.l2);
  gate("memory", record.gates.memory);
  table.row({"throughput", "", fmt::format("{:.0f} → {:.0f} tokens/s", record.baseline_tokens_per_s, record.candidate_tokens_per_s)});
  table.row({"loss difference", "", fmt::format("mean {:+.2g} nats over {} steps, root mean square {:.2g} of {:.2g} allowed", record.loss.mean,
                                                record.loss.steps, record.loss.rms, record.loss.allowed_rms)});
  table.row({"noise", "", fmt::format("SD of pairs {}, of A/A pairs {}; power to see 1 %: {}", share_text(look.sd, 2),
                                      share_text(record.s_aa, 2), share_text(look.power_at_1_percent, 0))});
  if (record.amdahl)
    table.row({"Amdahl", record.amdahl->warn ? Cell("look", Tone::warn) : Cell("agrees"),
               fmt::format("bench gain × share predicts {} of the step's time, seen {}{}", change(record.amdahl->predicted_log_ratio),
                           change(record.amdahl->seen_log_ratio), record.amdahl->warn ? ": off by more than a factor of 2" : "")});
  table.row({"legs", "", fmt::format("{} steps of {} in each, seed {}", record.steps_per_leg,
                                     record.turns > 0 ? fmt::format("{} turns", record.turns) : "one piece", record.seed)});
  return table;
}

Section trainer_section(const Report& r) {
  Section section{"trainer", "A/B in the trainer", {}};
  if (r.comparisons.empty()) {
    section.blocks.push_back(Paragraph{"No A/B of this candidate is on file: nobody knows yet whether a training run gets faster with it."});
    if (runs_in_trainer(r)) section.blocks.push_back(command(r, "integration-ab", "runs the trainer in balanced pairs, with the correctness gates"));
    return section;
  }
  for (size_t i = 0; i < std::min(kDrawnComparisons, r.comparisons.size()); ++i) {
    const auto& run = r.comparisons[i];
    section.blocks.push_back(Paragraph{fmt::format("{}, against the {}: {}. {}", when(run.line.created_at), run.record.against, run.line.status,
                                                   run.record.explanation.empty() ? run.record.reason : run.record.explanation)});
    note_standing(section, run.line);
    section.blocks.push_back(pairs_drawing(run));
    section.blocks.push_back(pairs_table(run.record));
    if (i == 0) section.blocks.push_back(ab_table(run.record));
    if (!run.record.notices.empty()) section.blocks.push_back(List{"Beside it", run.record.notices});
  }
  if (r.comparisons.size() > kDrawnComparisons)
    section.blocks.push_back(Paragraph{fmt::format("{} older ones are in the history below.", r.comparisons.size() - kDrawnComparisons)});
  return section;
}

// Bench samples -------------------------------------------------------------------------------

StripPlot::Arm strip_arm(const ArmSeries& series, const std::vector<int64_t>& calls_per_step) {
  StripPlot::Arm arm;
  const std::vector<double> times = step_ns(series.worker_ns, calls_per_step);
  const auto quartile = [&](double p) {
    const auto value = stats::quantile(times, p);
    return value.ok() ? *value : stats::median(times);
  };
  arm.q1_ns = quartile(0.25);
  arm.median_ns = stats::median(times);
  arm.q3_ns = quartile(0.75);
  constexpr size_t kSpecks = 120;  // of each arm in each process
  const size_t every = times.size() / kSpecks + 1;
  for (size_t i = 0; i < times.size(); i += every) arm.times_ns.push_back(times[i]);
  return arm;
}

StripPlot strips_of(const Report& r) {
  const BenchRecord& record = r.bench->record;
  StripPlot plot{"seam time of one training step, caches flushed",
                 fmt::format("{} {}", record.baseline, duration_text(record.baseline_time.cold_ns_per_step * 1e-9)),
                 fmt::format("candidate {}", duration_text(record.candidate.cold_ns_per_step * 1e-9)), {}};
  for (const ProcessSeries& process : r.samples->processes) {
    if (process.control || process.baseline_cold.letters() == 0 || process.candidate_cold.letters() == 0) continue;
    plot.processes.push_back({fmt::format("process {}", plot.processes.size() + 1),
                              strip_arm(process.baseline_cold, r.samples->calls_per_step),
                              strip_arm(process.candidate_cold, r.samples->calls_per_step)});
  }
  return plot;
}

void add_strips(Section& section, const Report& r, const StripPlot& plot) {
  const BenchRecord& record = r.bench->record;
  const size_t beyond = strip_range(plot).beyond;
  const std::string words = fmt::format("{} fresh processes with both kernels: {} against {}, ratio {:.4f}.", plot.processes.size(),
                                        plot.baseline, plot.candidate, record.ratio);
  Drawing drawing;
  drawing.svg = strip_plot(plot, words);
  drawing.caption = fmt::format(
      "Every process holds both kernels. Specks are timed steps{}{}, boxes the quartiles, rings and dots the medians. All samples: {}.",
      record.blocks * 2 > static_cast<int64_t>(plot.processes.size()) * 120 ? ", thinned" : "",
      beyond > 0 ? fmt::format(" ({} far out are not drawn)", beyond) : "", short_hash(record.samples_file));
  drawing.words = words;
  section.blocks.push_back(std::move(drawing));
  PageTable table("Processes in numbers", {"", ">" + record.baseline + " median", ">quartiles", ">candidate median", ">quartiles"}, true);
  const auto quartiles = [](const StripPlot::Arm& arm) {
    return fmt::format("{} to {}", duration_text(arm.q1_ns * 1e-9), duration_text(arm.q3_ns * 1e-9));
  };
  for (const auto& process : plot.processes)
    table.row({process.label, duration_text(process.baseline.median_ns * 1e-9), quartiles(process.baseline),
               duration_text(process.candidate.median_ns * 1e-9), quartiles(process.candidate)});
  table.row({"all processes", duration_text(record.baseline_time.cold_ns_per_step * 1e-9), "",
             duration_text(record.candidate.cold_ns_per_step * 1e-9), ""});
  section.blocks.push_back(std::move(table));
}

IntervalPlot::Row change_row(std::string label, const stats::Interval& interval, double log_ratio, bool decides) {
  IntervalPlot::Row row{std::move(label), std::expm1(log_ratio), {}, {}, decides};
  if (bounded(interval)) {
    row.low = std::expm1(interval.low);
    row.high = std::expm1(interval.high);
  }
  return row;
}

void add_ratios(Section& section, const Report& r) {
  const BenchRecord& record = r.bench->record;
  IntervalPlot plot{"seam time against the " + record.baseline, "faster", "slower", {}, {}, std::expm1(-record.delta),
                    std::expm1(record.delta), fmt::format("does not count: ±{}", share_text(record.delta))};
  PageTable table("Ratios and intervals in numbers", {"", ">seam time", ">interval"}, true);
  if (r.samples) {
    int number = 0;
    for (const double log_ratio : process_log_ratios(*r.samples, true)) {
      ++number;
      if (!std::isfinite(log_ratio)) continue;
      plot.points.push_back({fmt::format("process {}", number), std::expm1(log_ratio), {}, {}, false});
      table.row({plot.points.back().label, change(log_ratio), ""});
    }
  }
  const double mean = std::log(record.ratio);
  const auto interval = [&](const char* label, const stats::Interval& of, double estimate, bool decides) {
    plot.intervals.push_back(change_row(label, of, estimate, decides));
    table.row({label, change(estimate), range(of, 1)});
  };
  interval("95 % t", record.t95, mean, true);
  interval("signed-rank", record.walsh95, std::isfinite(record.walsh95.estimate) ? record.walsh95.estimate : mean, true);
  interval("90 % t", record.t90, mean, false);
  table.row({"effects that do not count", fmt::format("±{}", share_text(record.delta)), ""});
  const std::string words = fmt::format("Seam time {} against the {}, 95 % t interval {}, signed-rank {}; effects under {} do not count.",
                                        percent_text(record.ratio - 1), record.baseline, range(record.t95, 1), range(record.walsh95, 1),
                                        share_text(record.delta));
  Drawing drawing;
  drawing.svg = interval_plot(plot, words);
  drawing.caption = "The change of seam time by process, and the intervals. Both 95 % intervals must lie beyond the band for a win; the "
                    "90 % interval inside it makes the two equivalent.";
  drawing.words = words;
  section.blocks.push_back(std::move(drawing));
  section.blocks.push_back(std::move(table));
}

Section bench_section(const Report& r) {
  Section section{"bench", "Bench samples", {}};
  if (!r.bench) {
    section.blocks.push_back(Paragraph{"No bench of this candidate against the champion is on file."});
    section.blocks.push_back(command(r, "bench", "times fresh processes that hold both kernels"));
    return section;
  }
  const BenchRecord& record = r.bench->record;
  section.blocks.push_back(Paragraph{fmt::format("{}, {}: {}. {}", when(r.bench->line.created_at), record.mode, r.bench->line.status,
                                                 bench_sentence(record))});
  note_standing(section, r.bench->line);
  if (!(record.ratio > 0) || record.processes == 0) {
    section.blocks.push_back(command(r, "bench", "it ended before there were times to show"));
    return section;
  }
  const StripPlot strips = r.samples ? strips_of(r) : StripPlot{};
  if (!strips.processes.empty())
    add_strips(section, r, strips);
  else
    section.blocks.push_back(Paragraph{fmt::format(
        "The processes cannot be drawn: {}.", r.samples_missing.empty() ? "no process gave times of both kernels" : r.samples_missing)});
  add_ratios(section, r);
  section.blocks.push_back(Paragraph{fmt::format(
      "{} processes, {} ABBA blocks, {} timed calls, {} calls compared with the oracle; controls {}.", record.processes,
      count_text(record.blocks), count_text(record.timed_calls), count_text(record.calls_checked), or_none(record.controls.result))});
  return section;
}

// Roofline position ---------------------------------------------------------------------------

std::string axes_words(const std::map<std::string, int64_t>& axes) {
  std::string text;
  for (const auto& [name, length] : axes) text += fmt::format("{}{}={}", text.empty() ? "" : "\u00A0", name, length);
  return text;
}

std::vector<const BenchCase*> calls_of_step(const BenchRecord& record) {
  std::vector<const BenchCase*> calls;
  for (const BenchCase& c : record.cases)
    if (c.calls_per_step > 0 && c.candidate_cold_ns > 0 && c.baseline_cold_ns > 0 && c.bytes_read + c.bytes_written > 0) calls.push_back(&c);
  return calls;
}

PageTable roofline_table(const BenchRecord& record, const std::vector<const BenchCase*>& calls) {
  PageTable table("The calls of one training step",
                  {">", "call", ">a step", ">ops a byte", ">" + record.baseline, ">candidate", ">GFLOP/s", ">GB/s", ">its ceiling", ">of it"});
  for (size_t i = 0; i < calls.size(); ++i) {
    const BenchCase& c = *calls[i];
    const double bytes = c.bytes_read + c.bytes_written;
    table.row({std::to_string(i + 1), fmt::format("{} {}", c.operation, axes_words(c.axes)), count_text(c.calls_per_step),
               fmt::format("{:.3g}", c.flops / bytes), duration_text(c.baseline_cold_ns * 1e-9), duration_text(c.candidate_cold_ns * 1e-9),
               fmt::format("{:.2f} → {:.2f}", c.flops / c.baseline_cold_ns, c.flops / c.candidate_cold_ns),
               fmt::format("{:.1f} → {:.1f}", c.baseline_gb_per_s, c.candidate_gb_per_s),
               c.ceiling_gb_per_s ? fmt::format("{:.1f} GB/s, {:.2f} GFLOP/s", *c.ceiling_gb_per_s, *c.ceiling_gb_per_s * c.flops / bytes) : "–",
               c.candidate_percent_of_ceiling ? fmt::format("{:.0f} %", *c.candidate_percent_of_ceiling) : "–"});
  }
  return table;
}

void add_roofline(Section& section, const Report& r, const std::vector<const BenchCase*>& calls) {
  const Calibration& machine = r.calibration->record;
  int64_t largest = 0;
  for (const Ceiling& ceiling : machine.ceilings)
    if (ceiling.cold) largest = std::max(largest, ceiling.footprint_bytes);
  const BenchCase& first = *calls.front();
  const auto memory = ceiling_gb_per_s(machine, static_cast<double>(largest), first.bytes_read / (first.bytes_read + first.bytes_written));
  if (!memory) {
    section.blocks.push_back(Paragraph{"The calibration on file has no ceiling of cold memory, so there is no roof to draw."});
    section.blocks.push_back(command(r, "calibrate", "measures this machine's ceilings"));
    return;
  }
  RooflinePlot plot;
  plot.memory_gb_per_s = *memory;
  plot.baseline = r.bench->record.baseline;
  plot.candidate = "candidate";
  if (machine.device && machine.device->fp32_tflop_per_s) plot.peak_gflops = *machine.device->fp32_tflop_per_s * 1000;
  for (const BenchCase* c : calls) {
    const double intensity = c->flops / (c->bytes_read + c->bytes_written);
    RooflinePlot::Call call{intensity, c->flops / c->baseline_cold_ns, c->flops / c->candidate_cold_ns, {}};
    if (c->ceiling_gb_per_s) call.ceiling_gflops = *c->ceiling_gb_per_s * intensity;
    plot.calls.push_back(call);
  }
  const std::string peak = plot.peak_gflops ? fmt::format("matrix product {:.0f} GFLOP/s", *plot.peak_gflops)
                                            : "the rate of arithmetic was not measured";
  const std::string words = fmt::format("Memory {:.1f} GB/s at {}; {}. Calls by number: the table below.", *memory,
                                        bytes_text(static_cast<double>(largest)), peak);
  Drawing drawing;
  drawing.svg = roofline_plot(plot, words);
  drawing.caption = fmt::format(
      "Operations and bytes are the cost model's; times are cold. Roofs measured by calibrate: {} of cold memory at a footprint of {}, {}. "
      "The short bar above a call is what a copy of its own footprint and mix reaches.",
      fmt::format("{:.1f} GB/s", *memory), bytes_text(static_cast<double>(largest)), peak);
  drawing.words = words;
  section.blocks.push_back(std::move(drawing));
  PageTable roofs("Roofs in numbers", {"roof", ">measured"}, true);
  roofs.row({"memory", fmt::format("{:.1f} GB/s", *memory)});
  if (plot.peak_gflops) roofs.row({"matrix product, fp32", fmt::format("{:.0f} GFLOP/s", *plot.peak_gflops)});
  section.blocks.push_back(std::move(roofs));
}

Section roofline_section(const Report& r) {
  Section section{"roofline", "Roofline position", {}};
  const auto calls = r.bench ? calls_of_step(r.bench->record) : std::vector<const BenchCase*>();
  if (calls.empty()) {
    section.blocks.push_back(Paragraph{"Where the kernel lies under the machine's roofs follows from a bench, and there is none with times."});
    section.blocks.push_back(command(r, "bench", "times each call of the step, cold"));
    return section;
  }
  const bool computes = std::all_of(calls.begin(), calls.end(), [](const BenchCase* c) { return c->flops > 0; });
  if (!computes) {
    section.blocks.push_back(Paragraph{"It only moves data: there is no arithmetic to hold against a roof, and its rate in GB/s says it all."});
  } else if (!r.calibration) {
    section.blocks.push_back(Paragraph{"No ceilings of this machine class are on file, so there is no roof to draw."});
    section.blocks.push_back(command(r, "calibrate", "measures this machine's ceilings"));
  } else {
    add_roofline(section, r, calls);
  }
  section.blocks.push_back(roofline_table(r.bench->record, calls));
  return section;
}

// Share in the trace --------------------------------------------------------------------------

Section share_section(const Report& r) {
  const Assessment& a = r.assessment;
  Section section{"share", "Share in the trace", {}};
  if (r.seam.empty()) {
    section.blocks.push_back(Paragraph{"The trainer has no seam for this target: it is no part of its step."});
    return section;
  }
  if (r.shares.empty() || !a.seam_share) {
    section.blocks.push_back(Paragraph{"How much of the step this seam takes is not known: no current trace, calibration or A/B says so."});
    section.blocks.push_back(is_external(a.preset)
                                 ? command(r, "trace-profile", "reads the share from a trace of your trainer")
                                 : command(r, "capture", "traces the trainer; trace-profile reads the share from it"));
    return section;
  }
  SharePlot plot{r.seam, *a.seam_share, {}, a.gain_bound.value_or(*a.seam_share), a.gain_threshold, {}};
  double rest = 1 - plot.share;
  for (const auto& [seam, share] : r.shares) {
    if (seam == r.seam) continue;
    plot.others.push_back({seam, share});
    rest -= share;
  }
  std::stable_sort(plot.others.begin(), plot.others.end(), [](const auto& x, const auto& y) { return x.share > y.share; });
  const auto ab = std::find_if(r.comparisons.begin(), r.comparisons.end(),
                               [](const auto& run) { return run.line.counts && run.record.against == "champion"; });
  if (ab != r.comparisons.end()) plot.gain_seen = -std::expm1(ab->record.look.mean_log_ratio);
  const std::string words =
      fmt::format("{} takes {} of the step ({}); at most {} of the step to gain, {} needed{}.", r.seam, share_text(plot.share, 2), a.share_from,
                  share_text(plot.gain_bound, 2), share_text(plot.gain_needed, 2),
                  plot.gain_seen ? fmt::format(", {} seen in the trainer", share_text(*plot.gain_seen, 2)) : "");
  Drawing drawing;
  drawing.svg = share_plot(plot, words);
  drawing.caption = fmt::format("Above, the whole step by seam ({}, {}). Below, enlarged, this seam: what the kernel can gain at most, what an "
                                "A/B here can decide, and what the trainer showed.", a.share_from, when(r.share_line.created_at));
  drawing.words = words;
  section.blocks.push_back(Paragraph{words});
  if (!r.judgements.empty()) section.blocks.push_back(List{"What people say of it", r.judgements});
  section.blocks.push_back(std::move(drawing));
  PageTable table("Shares in numbers", {"part of the step", ">share"}, true);
  table.row({r.seam, share_text(plot.share, 2)});
  for (const auto& part : plot.others) table.row({part.label, share_text(part.share)});
  if (rest > 0) table.row({"in no seam", share_text(rest)});
  table.row({"at most to gain", share_text(plot.gain_bound, 2)});
  if (plot.share > std::max(0.0, plot.gain_bound)) table.row({"stays", share_text(plot.share - std::max(0.0, plot.gain_bound), 2)});
  table.row({"needed", share_text(plot.gain_needed, 2)});
  if (plot.gain_seen) table.row({"seen", share_text(*plot.gain_seen, 2)});
  section.blocks.push_back(std::move(table));
  return section;
}

// What the last two traces show of the whole step, each list as shares and times of one unit.
void add_trace_change(Section& section, const Report& r) {
  if (!r.trace_change) return;
  const trace::TraceDiff& diff = r.trace_change->diff;
  section.blocks.push_back(Paragraph{fmt::format("From the trace of {} to that of {}: {}.", when(r.trace_change->before_at),
                                                 when(r.trace_change->after_at), diff.verdict)});
  if (!diff.notes.empty()) section.blocks.push_back(List{"The two are not alike", diff.notes});
  PageTable table(fmt::format("The last two traces, times of one {}", diff.per), {"", ">before", ">after", ">change", ">share", ">share", ">points", "only in"},
                  true);
  const auto rows = [&](std::string_view kind, const std::vector<trace::WorkChange>& list, auto words) {
    for (const auto& c : list)
      table.row({fmt::format("{}{}", kind, words(c.name)), duration_text(c.before_ns * 1e-9), duration_text(c.after_ns * 1e-9),
                 signed_duration_text(c.change_ns * 1e-9), share_text(c.before_share), share_text(c.after_share),
                 fmt::format("{:+.1f}", 100 * c.change_share), c.held_by == "both" ? "" : c.held_by});
  };
  rows("", diff.parts, trace::words_of_part);
  const auto as_it_is = [](std::string_view name) { return name; };
  rows("seam ", diff.seams, as_it_is);
  rows("family ", diff.families, as_it_is);
  section.blocks.push_back(std::move(table));
}

// History of tries ----------------------------------------------------------------------------

std::string number_of(const EvidenceLine& line) {
  if (!line.metric_value) return {};
  if (line.metric_name == "speed_up") return percent_text(*line.metric_value);
  if (line.metric_name == "time_ratio") return fmt::format("×{:.3f}", *line.metric_value);
  return fmt::format("{} {:.4g}", line.metric_name, *line.metric_value);
}

PageTable everything(const Assessment& a) {
  PageTable table("Every line on file for this target, preset and engine", {"when (UTC)", "event", "status", "number", "kernel", "counts"}, true);
  const auto group = [&](const std::vector<EvidenceLine>& lines) {
    for (const auto& line : lines)
      table.row({when(line.created_at), line.event_type, status_cell(line.status), number_of(line), hash_cell(line.kernel),
                 line.counts ? "yes" : "no: " + does_not_count(line)});
  };
  for (const auto* lines : {&a.heuristic, &a.trace, &a.integration, &a.stale, &a.other_class, &a.unidentified}) group(*lines);
  return table;
}

Section history_section(const Report& r) {
  const Assessment& a = r.assessment;
  Section section{"history", "History of tries", {}};
  if (r.tries.empty()) {
    section.blocks.push_back(Paragraph{"Nothing was tried in the trainer against the champion yet."});
    if (runs_in_trainer(r)) section.blocks.push_back(command(r, "integration-ab", "the first try"));
  } else {
    section.blocks.push_back(Paragraph{fmt::format(
        "{} since the last promotion, of whatever candidate. A winner out of several is measured again before it counts.",
        a.tries == 1 ? "One try" : fmt::format("{} tries", a.tries))});
    PageTable table("A/Bs against the champion", {">k", "when (UTC)", "kernel", "verdict", ">speed-up", ">interval", ">pairs", "counts"});
    for (const auto& one : r.tries)
      table.row({std::to_string(one.k), when(one.line.created_at), hash_cell(one.line.kernel), status_cell(one.line.status),
                 one.line.metric_value ? percent_text(*one.line.metric_value) : "–",
                 fmt::format("{} to {}", percent_text(one.speed_up_low), percent_text(one.speed_up_high)), std::to_string(one.pairs),
                 one.line.counts ? "yes" : "no: " + does_not_count(one.line)});
    section.blocks.push_back(std::move(table));
  }
  if (!r.sources.empty()) {
    PageTable table("Sources that were verified", {"first seen (UTC)", "source", "verdicts", ""});
    for (const auto& source : r.sources) {
      std::vector<std::string> verdicts;
      for (const auto& line : source.verdicts)
        verdicts.push_back(fmt::format("{} {}{}", line.event_type, line.status,
                                       line.metric_name == "speed_up" || line.metric_name == "time_ratio" ? " " + number_of(line) : ""));
      std::string mark = source.is_champion ? "champion" : source.kernel == a.candidate_hash ? "candidate" : "";
      if (!source.stored) mark += mark.empty() ? "source not kept" : ", source not kept";
      table.row({when(source.first_seen), hash_cell(source.kernel), fmt::format("{}", fmt::join(verdicts, ", ")), mark});
    }
    section.blocks.push_back(std::move(table));
  }
  PageTable lines = everything(a);
  if (!lines.rows.empty()) section.blocks.push_back(std::move(lines));
  return section;
}

// Provenance ----------------------------------------------------------------------------------

struct HashRow {
  const char* name;
  std::string Identity::*member;
};
constexpr HashRow kHashes[] = {{"kernel source", &Identity::kernel}, {"baseline source", &Identity::baseline},
                               {"build flags", &Identity::flags},    {"harness, spec, oracle", &Identity::harness},
                               {"case plan", &Identity::case_plan},  {"other seams", &Identity::seams},
                               {"trainer and preset", &Identity::trainer}, {"machine class", &Identity::fingerprint_class}};

PageTable hashes(const Report& r) {
  std::vector<std::string> headers = {"hash of"};
  std::vector<const Identity*> identities;
  const auto column = [&](const char* name, const Identity& identity) {
    headers.emplace_back(name);
    identities.push_back(&identity);
  };
  if (r.verify) column("verify", r.verify->record.identity);
  if (r.bench) column("bench", r.bench->record.identity);
  if (!r.comparisons.empty()) column("integration-ab", r.comparisons.front().record.identity);
  if (r.calibration) column("calibration", r.calibration->record.identity);
  PageTable table("What each measurement was bound to", headers);
  for (const auto& hash : kHashes) {
    std::vector<Cell> row = {hash.name};
    bool any = false;
    for (const Identity* identity : identities) {
      const std::string& value = identity->*hash.member;
      any |= !value.empty();
      row.push_back(value.empty() ? Cell("–") : hash_cell(value));
    }
    if (any) table.row(std::move(row));
  }
  return table;
}

PageTable machine_table(const Report& r) {
  const Assessment& a = r.assessment;
  PageTable table("Kernel and machine", {"", ""});
  const auto row = [&](const char* name, const std::string& value, Tone tone = Tone::plain) {
    if (!value.empty()) table.row({name, {value, tone}});
  };
  row("candidate", a.candidate_hash, Tone::code);
  row("champion", a.champion_hash, Tone::code);
  row("workspace", a.workspace, Tone::code);
  row("engine and preset", fmt::format("{}, {}", a.engine, or_none(a.preset)));
  if (r.calibration) {
    const FingerprintClass& machine = r.calibration->record.fingerprint_class;
    row("device", machine.device);
    row("processor", fmt::format("{}, {} cores", machine.cpu_model, machine.cores));
    row("driver", machine.driver);
    row("compiler", machine.compiler);
    if (machine.toolkit != machine.compiler) row("toolkit", machine.toolkit);
    row("libraries", machine.libraries);
    row("image", machine.image);
    row("machine class", r.calibration->record.identity.fingerprint_class, Tone::code);
  }
  const FingerprintSession* session = !r.comparisons.empty() ? &r.comparisons.front().record.session
                                      : r.calibration        ? &r.calibration->record.session
                                                             : nullptr;
  if (session != nullptr) row("session", fmt::format("{}, {}, governor {}", session->host, session->kernel, session->governor));
  return table;
}

PageTable promotion_table(const Provenance& p) {
  PageTable table("How this kernel became the champion", {"", ""});
  table.row({"promoted (UTC)", when(p.promoted_at)});
  table.row({"in the place of", hash_cell(p.from_hash)});
  table.row({"price", fmt::format("{} lines added, {} removed", p.lines_added, p.lines_removed)});
  for (const auto& [metric, value] : p.gains)
    table.row({metric == "speed_up" ? "training step" : "seam time", metric == "speed_up" ? percent_text(value) : percent_text(value - 1)});
  table.row({"rests on", fmt::format("{} ledger lines", p.evidence.size())});
  if (p.forced) table.row({"forced against the evidence", {p.why, Tone::warn}});
  return table;
}

Section provenance_section(const Report& r) {
  Section section{"provenance", "Provenance", {}};
  if (r.promotion) section.blocks.push_back(promotion_table(*r.promotion));
  section.blocks.push_back(machine_table(r));
  if (!r.calibration) {
    section.blocks.push_back(Paragraph{"The machine is known by its class alone: no calibration of it is on file."});
    section.blocks.push_back(command(r, "calibrate", "records the machine with its ceilings"));
  }
  if (r.lines.empty()) {
    section.blocks.push_back(Paragraph{"The ledger has nothing about this candidate yet."});
    section.blocks.push_back(command(r, "verify", "the first evidence"));
    return section;
  }
  // A trace's lines alone are bound to no hash of a measurement.
  if (PageTable bound = hashes(r); !bound.rows.empty()) section.blocks.push_back(std::move(bound));
  PageTable table("Ledger lines this rests on", {"when (UTC)", "event", "status", "line", "commit", "lab", "raw samples"});
  for (const auto& line : r.lines)
    table.row({when(line.created_at), line.event_type, status_cell(line.status), hash_cell(line.id),
               line.git_commit.empty() ? Cell("none") : code(short_hash(line.git_commit) + (line.git_dirty ? " + changes" : "")),
               line.lab_version, line.samples_file.empty() ? "" : short_hash(line.samples_file) + (line.samples_kept ? "" : ", missing")});
  section.blocks.push_back(std::move(table));
  return section;
}

}  // namespace

Page evidence_page(const Report& r) {
  const Assessment& a = r.assessment;
  Page page;
  page.title = fmt::format("{} on {}", a.target, a.engine);
  page.subtitle = fmt::format("Preset {}, candidate {}, champion {}", or_none(a.preset),
                              a.candidate_hash.empty() ? "none" : short_hash(a.candidate_hash),
                              a.champion_hash.empty() ? "none" : short_hash(a.champion_hash));
  page.badge = {a.state, tone_of_state(a.state)};
  Section share = share_section(r);
  add_trace_change(share, r);
  page.sections = {state_section(r), trainer_section(r), bench_section(r), roofline_section(r),
                   std::move(share), history_section(r), provenance_section(r)};
  page.footer = fmt::format("Kernel Lab {}, written {} UTC from the ledger.", kLabVersion, when(r.written_at));
  return page;
}

}  // namespace kl
