#include <lab/integration/replay_gate.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

#include <cmath>
#include <fstream>

namespace kl {
namespace {

const std::vector<int64_t> kBatches = {0, 1};

struct Replayed {
  std::vector<ReplayedBatch> batches;
  std::optional<LegFailure> failure;
};

LegFailure failed(Arm arm, std::string text, TrainerRun run) {
  return {arm, arm == Arm::baseline ? "gates-not-run" : "aborted", std::move(text),
          "the trainer protocol describes `replay` and `snapshots`", std::move(run)};
}

Result<Replayed> replay_arm(const PairSession& session, Arm arm, const ReplayRequest& request) {
  KL_CHECK(make_directories(request.gradients));
  TrainerPlan plan = session.plan();
  plan.libraries = session.libraries(arm);
  plan.replay = request;
  plan.turns.reset();
  plan.steps = 0;
  plan.warmup_steps = 0;
  const auto expected = request.weights.size() * request.batches.size();
  const double timeout = session.timeout_for(static_cast<int64_t>(3 * expected));
  KL_TRY(auto run, session.trainer().run(plan, timeout));
  Replayed replayed;
  if (!run.complete()) {
    replayed.failure =
        failed(arm, fmt::format("a {} replay {}", to_string(arm), run.why_incomplete()), run);
  } else if (run.replays.size() != expected) {
    replayed.failure = failed(arm, fmt::format("a {} replay answered {} of {} batches", to_string(arm),
                                               run.replays.size(), expected), run);
  } else {
    replayed.batches = std::move(run.replays);
  }
  return replayed;
}

}  // namespace

std::vector<int64_t> snapshot_steps(int64_t warmup_steps, int64_t steps) {
  const int64_t last = warmup_steps + steps - 1;
  return {0, last / 2, last};
}

Result<GradientComparison> compare_gradients(const fs::path& a, const fs::path& b) {
  std::ifstream first(a, std::ios::binary), second(b, std::ios::binary);
  const auto unreadable = [](const fs::path& path) {
    return make_error(Status::execution_failed, fmt::format("cannot read gradients {}", path.string()),
                      "the trainer must write one float32 per parameter there");
  };
  if (!first) return unreadable(a);
  if (!second) return unreadable(b);
  std::vector<float> x(1 << 16), y(1 << 16);
  double dot = 0, xx = 0, yy = 0;
  size_t total = 0;
  while (true) {
    const auto bytes = static_cast<std::streamsize>(x.size() * sizeof(float));
    first.read(reinterpret_cast<char*>(x.data()), bytes);
    second.read(reinterpret_cast<char*>(y.data()), bytes);
    if (first.gcount() != second.gcount() || first.gcount() % 4 != 0)
      return make_error(Status::execution_failed,
                        fmt::format("gradients {} and {} differ in length", a.string(), b.string()),
                        "both paths must write the same parameters");
    const auto n = static_cast<size_t>(first.gcount()) / sizeof(float);
    if (n == 0) break;
    total += n;
    for (size_t i = 0; i < n; ++i) {
      const double xi = x[i], yi = y[i];
      dot += xi * yi;
      xx += xi * xi;
      yy += yi * yi;
    }
  }
  if (total == 0) return unreadable(a);
  return GradientComparison{dot / std::sqrt(xx * yy), std::sqrt(yy / xx)};
}

Result<ReplayOutcome> replay_both(const PairSession& session, const fs::path& folder,
                                  const std::vector<int64_t>& at_steps) {
  ReplayOutcome outcome;
  ReplayRequest request;
  request.batches = kBatches;
  for (const int64_t step : at_steps) request.weights.push_back(snapshot_file(folder, step));
  std::error_code code;
  for (const auto& file : request.weights)
    if (!fs::exists(file, code)) {
      outcome.failure = failed(Arm::baseline, fmt::format("the trainer left no snapshot {}",
                                                          file.filename().string()), {});
      return outcome;
    }
  const auto arm_folder = [&](const char* name) { return folder / name; };
  const auto run = [&](Arm arm, const char* name) {
    request.gradients = arm_folder(name);
    return replay_arm(session, arm, request);
  };
  KL_TRY(auto baseline, run(Arm::baseline, "baseline"));
  if (baseline.failure) {
    outcome.failure = std::move(baseline.failure);
    return outcome;
  }
  KL_TRY(auto repeat, run(Arm::baseline, "repeat"));
  if (repeat.failure) {
    outcome.failure = std::move(repeat.failure);
    return outcome;
  }
  KL_TRY(auto candidate, run(Arm::candidate, "candidate"));
  if (candidate.failure) {
    outcome.failure = std::move(candidate.failure);
    return outcome;
  }
  for (size_t k = 0; k < at_steps.size(); ++k)
    for (size_t j = 0; j < kBatches.size(); ++j) {
      const size_t i = k * kBatches.size() + j;
      KL_TRY(const auto gradients,
             compare_gradients(gradient_file(arm_folder("baseline"), k, kBatches[j]),
                               gradient_file(arm_folder("candidate"), k, kBatches[j])));
      outcome.points.push_back({at_steps[k], kBatches[j], baseline.batches[i].loss,
                                repeat.batches[i].loss, candidate.batches[i].loss, gradients.cosine,
                                gradients.norm_ratio});
    }
  return outcome;
}

}  // namespace kl
