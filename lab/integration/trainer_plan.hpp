// What a trainer is asked to do: one run, or one replay (docs/trainer-protocol.md).
#pragma once

#include <lab/core/json.hpp>
#include <lab/integration/turns.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kl {

struct SeamLibrary {
  std::filesystem::path path;
  std::string source_hash;
  std::string library_hash;
  bool operator==(const SeamLibrary&) const = default;
};
using SeamLibraries = std::map<std::string, SeamLibrary>;  // by seam

struct PerturbRequest {
  std::string seam;
  uint64_t seed = 0;
};

struct SnapshotRequest {
  std::filesystem::path folder;
  std::vector<int64_t> steps;
};
// Where the weights before step `step` are written.
std::filesystem::path snapshot_file(const std::filesystem::path& folder, int64_t step);
// Where a replay leaves the gradient of a batch at the `weights`-th file of its request.
std::filesystem::path gradient_file(const std::filesystem::path& folder, size_t weights, int64_t batch);

// Of the timed steps, counted from 0, those whose ranges are written.
struct RangeRequest {
  int64_t first = 0;
  int64_t steps = 0;
  int64_t every = 1;  // one in so many
};

// Of timed step `step`, counted from 0, what the seams are called with.
struct TensorRequest {
  std::filesystem::path folder;
  int64_t step = 0;
};

struct ReplayRequest {
  std::vector<std::filesystem::path> weights;
  std::vector<int64_t> batches;
  std::filesystem::path gradients;
};

struct TrainerPlan {
  std::string preset;
  Json overrides = Json::object();
  uint64_t seed = 1;
  int64_t warmup_steps = 0;
  int64_t steps = 0;                    // timed ones
  std::optional<TurnPlan> turns;        // a multiple of its steps is timed
  SeamLibraries libraries;
  bool skip_eval = true;
  bool no_checkpoint = true;
  std::optional<PerturbRequest> perturb;
  std::optional<SnapshotRequest> snapshots;
  std::optional<RangeRequest> ranges;
  std::optional<TensorRequest> tensors;
  std::optional<ReplayRequest> replay;  // present: mode "replay"

  int64_t turn_count() const { return turns ? steps / turns->steps : 0; }
  // Warm-up, timed and settling steps.
  int64_t all_steps() const {
    return warmup_steps + steps + (turns ? turn_count() * turns->settle : 0);
  }
};

Json plan_json(const TrainerPlan& plan, const std::filesystem::path& events);

}  // namespace kl
