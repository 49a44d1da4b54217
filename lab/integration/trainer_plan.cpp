#include <lab/integration/trainer_plan.hpp>

#include <fmt/format.h>

namespace kl {

std::filesystem::path snapshot_file(const std::filesystem::path& folder, int64_t step) {
  return folder / fmt::format("step-{}.safetensors", step);
}

std::filesystem::path gradient_file(const std::filesystem::path& folder, size_t weights, int64_t batch) {
  return folder / fmt::format("{}-{}.f32", weights, batch);
}

Json plan_json(const TrainerPlan& plan, const std::filesystem::path& events) {
  Json libraries = Json::object();
  for (const auto& [seam, library] : plan.libraries)
    libraries[seam] = {{"path", library.path.string()},
                       {"source_hash", library.source_hash},
                       {"library_hash", library.library_hash}};
  Json json = {{"protocol", 1},
               {"mode", plan.replay ? "replay" : "run"},
               {"preset", plan.preset},
               {"overrides", plan.overrides},
               {"seed", plan.seed},
               {"warmup_steps", plan.warmup_steps},
               {"steps", plan.steps},
               {"libraries", std::move(libraries)},
               {"events", events.string()},
               {"skip_eval", plan.skip_eval},
               {"no_checkpoint", plan.no_checkpoint}};
  if (plan.turns)
    json["turns"] = {{"steps", plan.turns->steps},
                     {"settle", plan.turns->settle},
                     {"channel", plan.turns->channel.string()}};
  if (plan.perturb) json["perturb"] = {{"seam", plan.perturb->seam}, {"seed", plan.perturb->seed}};
  if (plan.snapshots)
    json["snapshots"] = {{"folder", plan.snapshots->folder.string()},
                         {"steps", plan.snapshots->steps}};
  if (plan.tensors) json["tensors"] = {{"folder", plan.tensors->folder.string()}, {"step", plan.tensors->step}};
  if (plan.ranges)
    json["ranges"] = {{"first", plan.ranges->first}, {"steps", plan.ranges->steps}, {"every", plan.ranges->every}};
  if (plan.replay) {
    Json weights = Json::array();
    for (const auto& file : plan.replay->weights) weights.push_back(file.string());
    json["replay"] = {{"weights", std::move(weights)},
                      {"batches", plan.replay->batches},
                      {"gradients", plan.replay->gradients.string()}};
  }
  return json;
}

}  // namespace kl
