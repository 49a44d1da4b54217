// L1 in practice: snapshots of the baseline's weights, and the same batches through both paths.
#pragma once

#include <lab/integration/gates.hpp>

#include <filesystem>
#include <vector>

namespace kl {

struct ReplayOutcome {
  std::vector<ReplayPoint> points;
  // Set when there are no points: the trainer cannot replay (the baseline's failed), or the
  // candidate did not survive it.
  std::optional<LegFailure> failure;
};

// Steps at which the baseline leaves its weights: first, middle and last of a leg.
std::vector<int64_t> snapshot_steps(int64_t warmup_steps, int64_t steps);

// Replays the snapshots in `folder` through the baseline twice (its non-determinism is the floor)
// and through the candidate once.
Result<ReplayOutcome> replay_both(const PairSession& session, const std::filesystem::path& folder,
                                  const std::vector<int64_t>& at_steps);

struct GradientComparison {
  double cosine = 0;
  double norm_ratio = 0;  // b over a
};
// Raw float32 files of equal length; cosine and norms are summed in double.
Result<GradientComparison> compare_gradients(const std::filesystem::path& a,
                                             const std::filesystem::path& b);

}  // namespace kl
