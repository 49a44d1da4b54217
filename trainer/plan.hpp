// A plan: what the lab asks of a trainer (docs/trainer-protocol.md).
#pragma once

#include <trainer/seam_set.hpp>

#include <optional>

namespace kl::trainer {

struct Perturbation {
  std::string seam;
  uint64_t seed = 0;
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("seam", self.seam, "whose outputs are moved");
    v("seed", self.seed, "fixes the moves");
  }
};
struct Snapshots {
  std::string folder;
  std::vector<int64_t> steps;
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("folder", self.folder, "where step-<i>.safetensors go");
    v("steps", self.steps, "the weights before these steps are kept");
  }
};
// The timed steps come in turns, between which another trainer may run.
struct Turns {
  int64_t steps = 0;
  int64_t settle = 0;
  std::string channel;
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("steps", self.steps, "timed steps of a turn");
    v("settle", self.settle, "steps before them that are not timed");
    v("channel", self.channel, "folder of the FIFOs `ask` and `grant`; empty: wait for nobody");
  }
};
// The ranges of some timed steps, counted from 0, go into the event stream.
struct RangePlan {
  int64_t first = 0;
  int64_t steps = 0;
  int64_t every = 1;
  bool holds(int64_t timed) const { return timed >= first && timed <= last() && (timed - first) % every == 0; }
  int64_t last() const { return first + (steps - 1) * every; }
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("first", self.first, "the first of them");
    v("steps", self.steps, "how many");
    v("every", self.every, "one in so many");
  }
};
// What the seams are called with in one timed step, counted from 0.
struct TensorPlan {
  std::string folder;
  int64_t step = 0;
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("folder", self.folder, "where SEAM.K.safetensors go");
    v("step", self.step, "the step");
  }
};
struct Replay {
  std::vector<std::string> weights;
  std::vector<int64_t> batches;
  std::string gradients;
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("weights", self.weights, "safetensors files");
    v("batches", self.batches, "steps whose tokens are replayed");
    v("gradients", self.gradients, "folder for <file>-<batch>.f32");
  }
};

struct Plan {
  int64_t protocol = 0;
  std::string mode = "run";
  std::string preset;
  Json overrides = Json::object();
  int64_t seed = 1;
  int64_t warmup_steps = 0;
  int64_t steps = 0;
  SeamFiles libraries;
  std::string events;
  bool skip_eval = false;
  bool no_checkpoint = false;
  std::optional<Perturbation> perturb;
  std::optional<Snapshots> snapshots;
  std::optional<Turns> turns;
  std::optional<RangePlan> ranges;
  std::optional<TensorPlan> tensors;
  std::optional<Replay> replay;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("protocol", self.protocol, "1");
    v("mode", self.mode, "run or replay");
    v("preset", self.preset, "operating point");
    v("overrides", self.overrides, "preset fields");
    v("seed", self.seed, "fixes initial weights and the order of tokens");
    v("warmup_steps", self.warmup_steps, "steps not timed");
    v("steps", self.steps, "steps timed");
    v("libraries", self.libraries, "by seam");
    v("events", self.events, "file the event stream is appended to");
    v("skip_eval", self.skip_eval, "no evaluation at the end");
    v("no_checkpoint", self.no_checkpoint, "no weights are kept");
    v("perturb", self.perturb, "moves one seam's outputs by a unit in the last place");
    v("snapshots", self.snapshots, "weights to keep");
    v("turns", self.turns, "how the timed steps are cut");
    v("ranges", self.ranges, "the timed steps whose ranges are written");
    v("tensors", self.tensors, "the timed step whose seams' inputs are kept");
    v("replay", self.replay, "what to replay");
  }
};

Result<Plan> read_plan(const std::filesystem::path& path);
// The preset with the plan's overrides and seed.
Result<Config> config_of(const Plan& plan);

}  // namespace kl::trainer
