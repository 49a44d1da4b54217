#include "target_facts.hpp"

#include <lab/build/builder.hpp>
#include <lab/flow/external.hpp>

#include <fmt/format.h>

namespace kl::app {
namespace {

Outcome add_floor(const Context& context, const Target& target, const TrainerSeam& seam,
                  PresetFacts& all, TargetFacts& facts) {
  const auto oracle = open_oracle(Builder(*context.engine), target.oracle(), target.key);
  if (!oracle.ok()) {
    all.floors[target.key].unknown = facts.floor_unknown = oracle.error().what;
    return {};
  }
  KL_TRY(const StepFloor floor, step_floor(*oracle, target, seam.shapes, all.calibration ? &*all.calibration : nullptr));
  all.floors[target.key] = floor;
  facts.floor_ns = floor.ns;
  facts.floor_unknown = floor.unknown;
  return {};
}

TargetFacts facts_of(const Context& context, const Target& target) {
  return {.target = target.key, .seam = target.seam, .category = target.families.empty() ? "" : target.families.front(),
          .starter = target.status(*context.engine), .share = {}, .share_from = "", .measured_ns = {},
          .floor_ns = {}, .floor_unknown = "", .gain_of_share = {}, .credited_share = 0, .credited_for = "", .not_on_path = ""};
}

}  // namespace

Result<PresetFacts> preset_facts(const Context& context, const Catalogue& catalogue, const std::string& preset) {
  if (is_external(preset)) {
    PresetFacts facts;
    for (const Target& target : catalogue.targets()) facts.targets.push_back(facts_of(context, target));
    return facts;
  }
  const TrainerClient trainer(TrainerClient::builtin());
  KL_TRY(const auto seams, trainer.seams(preset));
  KL_TRY(const TrainerPreset described, trainer.preset(preset));
  PresetFacts facts;
  KL_TRY(facts.identity, identity_of_preset(context, catalogue, preset));
  KL_TRY(facts.calibration, calibration_on_file(context, catalogue, preset));
  // Forward and backward of every weight's product: 6 operations a parameter and token.
  facts.other_flops = 6.0 * static_cast<double>(described.parameters) * static_cast<double>(described.tokens_per_step);
  double done = 0;
  for (const Target& target : catalogue.targets()) {
    report(context.progress, {done++, static_cast<double>(catalogue.targets().size()), "targets", target.key});
    TargetFacts one = facts_of(context, target);
    const TrainerSeam* seam = seam_of(seams, target);
    if (seam == nullptr) {
      one.not_on_path = target.seam.empty() ? "the trainer has no seam for it" : fmt::format("preset {} has no such seam", preset);
    } else if (!seam->on_path()) {
      one.not_on_path = fmt::format("shadowed: preset {} runs that region another way", preset);
    } else {
      KL_CHECK(add_floor(context, target, *seam, facts, one));
    }
    facts.targets.push_back(std::move(one));
  }
  return facts;
}

Result<std::map<std::string, Assessment>> standing_of(const Context& context, const Catalogue& catalogue, const PresetFacts& facts,
                                                      const std::string& preset, const LedgerEvent* pending) {
  std::map<std::string, Assessment> standing;
  for (const TargetFacts& one : facts.targets) {
    if (!one.not_on_path.empty()) continue;
    KL_TRY(const Target target, catalogue.find(one.target));
    KL_TRY(standing[target.key], assess_now(context, catalogue, target, preset, {}, "", pending));
  }
  return standing;
}

}  // namespace kl::app
