#include <lab/integration/divergence_gate.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

// Everything that decides the perturbed curves.
std::string cache_key(const PairSession& session, const DivergenceKey& key, int64_t steps) {
  std::string libraries;
  for (const auto& [seam, library] : session.libraries(Arm::baseline))
    libraries += seam + "=" + library.library_hash + ";";
  const auto& plan = session.plan();
  return sha256_fields({key.seam, key.trainer, key.fingerprint_class, libraries,
                        dump_line(plan.overrides), std::to_string(plan.seed),
                        std::to_string(plan.warmup_steps), std::to_string(plan.steps), std::to_string(plan.all_steps()),
                        std::to_string(steps)});
}

}  // namespace

Result<PerturbedDivergence> perturbed_divergence(PairSession& session, const DivergenceKey& key,
                                                 const LossCurve& baseline, const fs::path& cache,
                                                 const Progress& progress) {
  PerturbedDivergence result;
  result.steps = std::min(kDivergenceSteps, static_cast<int64_t>(baseline.loss.size()));
  const fs::path file = cache / (cache_key(session, key, result.steps) + ".json");
  std::error_code code;
  if (fs::exists(file, code))
    if (const auto json = read_json_file(file))
      if (auto cached = from_json<PerturbedDivergence>(*json);
          cached && cached->replicates.size() == kPerturbedReplicates)
        return std::move(*cached);

  for (int i = 0; i < kPerturbedReplicates; ++i) {
    report(progress, {static_cast<double>(i), kPerturbedReplicates, "replicates",
                      "a baseline perturbed by one unit in the last place"});
    auto outcome = session.run_leg(Arm::baseline, [&](TrainerPlan& plan) {
      plan.perturb = PerturbRequest{key.seam, static_cast<uint64_t>(i + 1)};
      plan.skip_eval = true;
    });
    if (std::holds_alternative<LegFailure>(outcome)) {
      result.replicates.clear();
      return result;
    }
    const LossCurve curve = loss_curve(std::get<CompletedLeg>(outcome).run);
    result.replicates.push_back(divergence(curve, baseline, result.steps));
  }
  KL_CHECK(make_directories(cache));
  KL_CHECK(write_file_atomic(file, dump_pretty(to_json(result))));
  return result;
}

}  // namespace kl
