#include <trainer/plan.hpp>

namespace kl::trainer {

Result<Plan> read_plan(const std::filesystem::path& path) {
  KL_TRY(const Json json, read_json_file(path));
  auto parsed = from_json<Plan>(json);
  if (!parsed.ok())
    return make_error(Status::usage, path.string() + ": " + parsed.error().what,
                      "docs/trainer-protocol.md describes a plan");
  Plan plan = std::move(parsed).value();
  const auto refuse = [&path](const std::string& what) {
    return make_error(Status::usage, path.string() + ": " + what,
                      "docs/trainer-protocol.md describes a plan");
  };
  if (plan.protocol != 1)
    return refuse("protocol is " + std::to_string(plan.protocol) + ", this trainer speaks 1");
  if (plan.mode != "run" && plan.mode != "replay")
    return refuse("mode is '" + plan.mode + "', neither run nor replay");
  if (plan.events.empty()) return refuse("names no file for events");
  if (plan.mode == "run" && (plan.steps < 1 || plan.warmup_steps < 0))
    return refuse("steps is " + std::to_string(plan.steps) + " and warmup_steps " +
                  std::to_string(plan.warmup_steps));
  if (plan.turns && (plan.turns->steps < 1 || plan.turns->settle < 0 || plan.steps % plan.turns->steps != 0))
    return refuse("turns of " + std::to_string(plan.turns->steps) + " steps do not make up " +
                  std::to_string(plan.steps));
  if (plan.ranges && (plan.ranges->first < 0 || plan.ranges->steps < 1 || plan.ranges->every < 1 ||
                      plan.ranges->steps > plan.steps || plan.ranges->every > plan.steps ||
                      plan.ranges->first > plan.steps || plan.ranges->last() >= plan.steps))
    return refuse("ranges of " + std::to_string(plan.ranges->steps) + " steps, one in " + std::to_string(plan.ranges->every) +
                  " from " + std::to_string(plan.ranges->first) + ", are not among " + std::to_string(plan.steps));
  if (plan.tensors && (plan.tensors->folder.empty() || plan.tensors->step < 0 || plan.tensors->step >= plan.steps))
    return refuse("tensors of step " + std::to_string(plan.tensors->step) + " in '" + plan.tensors->folder + "': a folder and one of " +
                  std::to_string(plan.steps) + " steps are wanted");
  if (plan.mode == "replay" && !plan.replay) return refuse("mode is replay and `replay` is missing");
  return plan;
}

Result<Config> config_of(const Plan& plan) {
  KL_TRY(Config config, Presets::find(plan.preset));
  KL_CHECK(apply_overrides(config, plan.overrides));
  config.seed = plan.seed;
  KL_CHECK(validate(config));
  return config;
}

}  // namespace kl::trainer
