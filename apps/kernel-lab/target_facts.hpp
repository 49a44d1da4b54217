// What profile and trace-profile know of every target on one preset: floors by the cost models at
// the trainer's shapes, and where each stands in the ledger.
#pragma once

#include "session.hpp"

#include <lab/bench/step_floor.hpp>
#include <lab/flow/ranking.hpp>

namespace kl::app {

struct PresetFacts {
  std::vector<TargetFacts> targets;                 // without shares
  std::map<std::string, StepFloor> floors;          // of those with a seam on the path
  double other_flops = 0;                           // of a step: products of the model's parameters
  std::optional<Calibration> calibration;
  Identity identity;                                // seams, trainer, class: of the preset
};

// Of `external:NAME`: every target of the catalogue, without floors.
Result<PresetFacts> preset_facts(const Context& context, const Catalogue& catalogue, const std::string& preset);

// Where every target of `facts` that the step runs stands; `pending`, if any, as if it were on file already.
Result<std::map<std::string, Assessment>> standing_of(const Context& context, const Catalogue& catalogue, const PresetFacts& facts,
                                                      const std::string& preset, const LedgerEvent* pending = nullptr);

}  // namespace kl::app
