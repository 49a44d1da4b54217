#include "target_facts.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/core/clock.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/profile.hpp>
#include <lab/report/ranking_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace kl::app {
namespace {

// Where nothing was calibrated: only the order of magnitude between a byte and an operation matters.
constexpr double kNominalGbPerS = 10, kNominalGflopPerS = 100;

double nominal_ns(double bytes, double flops) { return std::max(bytes / kNominalGbPerS, flops / kNominalGflopPerS); }

// Shares from the newest current calibration, else from the cost models of all seams and products.
void add_shares(PresetFacts& facts, const std::map<std::string, Assessment>& standing, const std::string& preset) {
  const std::map<std::string, double>* measured = nullptr;
  if (facts.calibration)
    if (const auto it = facts.calibration->seam_share.find(preset); it != facts.calibration->seam_share.end())
      measured = &it->second;
  const auto rate = facts.calibration && facts.calibration->device ? facts.calibration->device->fp32_tflop_per_s : std::nullopt;
  const bool calibrated = rate && std::all_of(facts.floors.begin(), facts.floors.end(), [](const auto& f) { return f.second.ns.has_value(); });
  const auto weight = [&](const StepFloor& floor) { return calibrated ? *floor.ns : nominal_ns(floor.bytes, floor.flops); };
  double total = calibrated ? facts.other_flops / (*rate * 1e3) : nominal_ns(0, facts.other_flops);
  for (const auto& [target, floor] : facts.floors) total += weight(floor);
  for (TargetFacts& one : facts.targets) {
    const auto known = standing.find(one.target);
    if (known != standing.end() && known->second.seam_share) {
      one.share = known->second.seam_share;
      one.share_from = known->second.share_from;
      one.gain_of_share = known->second.gain_of_share;
      if (one.gain_of_share) {
        one.floor_unknown.clear();
        continue;
      }
    } else if (measured != nullptr && measured->contains(one.seam)) {
      one.share = measured->at(one.seam);
      one.share_from = "calibration";
    } else if (const auto floor = facts.floors.find(one.target); floor != facts.floors.end() && total > 0) {
      one.share = weight(floor->second) / total;
      one.share_from = calibrated ? "cost-model" : "cost-model at nominal rates";
      if (one.floor_unknown.empty()) one.floor_unknown = "nothing was measured";
    }
    if (one.floor_unknown.empty() && !one.measured_ns) one.floor_unknown = "the seam's time in a step was not measured: capture and trace-profile";
  }
}

struct Flags {
  std::string preset, output;
  size_t top_k = 10;
};

Result<Answer> run_profile(Context& context, const Flags& flags) {
  KL_CHECK(require_usable(context));
  const Catalogue catalogue = Catalogue::search(context.target_path);
  const int64_t begun_ns = monotonic_ns();
  auto record = new_record<ProfileRecord>();
  record.engine = context.engine->name();
  KL_TRY(record.preset, choose_preset(context, flags.preset, ""));
  KL_TRY(PresetFacts facts, preset_facts(context, catalogue, record.preset));
  KL_TRY(const auto standing, standing_of(context, catalogue, facts, record.preset));
  add_shares(facts, standing, record.preset);
  Ranking ranking = rank_targets(facts.targets, standing);
  if (ranking.candidates.size() > flags.top_k) ranking.candidates.resize(flags.top_k);
  record.identity = facts.identity;
  record.status = Status::ok;
  record.candidates = std::move(ranking.candidates);
  record.not_ranked = std::move(ranking.not_ranked);
  Answer answer;
  if (!flags.output.empty()) {
    record.output_file = fs::absolute(flags.output).string();
    record.wall_seconds = static_cast<double>(monotonic_ns() - begun_ns) * 1e-9;
    KL_CHECK(write_file_atomic(flags.output, dump_pretty(to_json(record)) + "\n"));
    answer.text = flags.output + "\n";
    answer.next = command_line(context, fmt::format("orchestrate --profile {} --workspace-root workspaces", shell_word(flags.output)));
  } else {
    answer.text = ranking_text(record.candidates, record.not_ranked, context.style);
    answer.next = command_line(context, fmt::format("capture --preset {0} --output captures/{0}", record.preset));
  }
  answer.record = to_json(record);
  return answer;
}

}  // namespace

Command command_profile() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "profile";
  command.summary = "targets ranked by what they can gain, from cost models, calibration and ledger: nothing is run";
  command.examples = {"profile", "--engine cpu profile --preset cpu-balanced --top-k 8 --output p.json"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--preset", flags->preset, "trainer operating point")->type_name("NAME");
    app.add_option("--top-k", flags->top_k, "at most so many targets")->check(whole_number_check(1, 1000));
    app.add_option("--output", flags->output, "write the record there")->type_name("FILE");
  };
  command.run = [flags](Context& context) { return run_profile(context, *flags); };
  return command;
}

}  // namespace kl::app
