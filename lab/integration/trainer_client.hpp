// The lab's side of the trainer protocol: any program that answers `presets` and `seams` and runs
// plans (docs/trainer-protocol.md).
#pragma once

#include <lab/core/record.hpp>
#include <lab/integration/trainer_plan.hpp>
#include <lab/integration/trainer_run.hpp>
#include <lab/target/seam_shape.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kl {

struct TrainerPreset {
  std::string name;
  std::string family;
  double strength = 0;  // within a family, the next stronger is the next larger
  std::optional<std::string> device;  // name of the engine it runs on; absent: any
  std::string description;
  int64_t parameters = 0;
  int64_t tokens_per_step = 0;
  std::optional<bool> turns;  // absent: no

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("name", self.name, "name of the preset");
    v("family", self.family, "presets of one family differ in strength");
    v("strength", self.strength, "the next stronger preset is the next larger one");
    v("device", self.device, "engine it runs on; null: any");
    v("description", self.description, "one sentence");
    v("parameters", self.parameters, "parameters of the model");
    v("tokens_per_step", self.tokens_per_step, "tokens in one optimiser step");
    v("turns", self.turns, "two runs fit the machine at once and take turns; null: they do not");
  }
};

// The presets of an engine and a family, weakest first.
std::vector<TrainerPreset> presets_by_strength(std::vector<TrainerPreset> presets, std::string_view engine,
                                               std::string_view family);
// The next of its family on this engine; absent: it is the strongest.
std::optional<TrainerPreset> next_stronger(const std::vector<TrainerPreset>& presets, const TrainerPreset& preset,
                                           std::string_view engine);

struct TrainerSeam {
  std::string seam;
  std::string target;  // whose library the seam holds
  std::vector<SeamShape> shapes;
  std::optional<std::map<std::string, std::string>> opened_by;  // absent or empty: on the path

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("seam", self.seam, "place in the training step");
    v("target", self.target, "target whose library fills it");
    v("shapes", self.shapes, "shapes at which the step calls it");
    v("opened_by", self.opened_by, "preset fields that put it on the path; absent or empty: it is");
  }
  bool on_path() const { return !opened_by || opened_by->empty(); }
  std::map<std::string, int64_t> calls_per_step() const;  // by operation, over all shapes
};

// The seams that a step runs, and the preset fields that were needed to have a certain one among them.
struct TrainerPath {
  std::vector<TrainerSeam> seams;
  std::map<std::string, std::string> opened_by;
  const TrainerSeam* find(std::string_view seam) const;  // null: not there
};

class TrainerClient {
 public:
  // `arguments` are passed before the protocol's own, for trainers that a launcher starts.
  explicit TrainerClient(std::filesystem::path program, std::vector<std::string> arguments = {});
  static std::filesystem::path builtin();  // kernel-lab-train of this installation

  const std::filesystem::path& program() const { return program_; }
  Result<std::vector<TrainerPreset>> presets() const;
  Result<TrainerPreset> preset(std::string_view name) const;  // near matches in the error
  // Those of the preset's path, and of others with the settings that open them; `overrides` as in a plan.
  Result<std::vector<TrainerSeam>> seams(std::string_view preset, const Json& overrides = Json::object()) const;
  // The preset's own path; where `seam` is off it and the trainer can open it, the opened one.
  Result<TrainerPath> path(std::string_view preset, const Json& overrides = Json::object(),
                           std::string_view seam = {}) const;
  // The program can be started and speaks the protocol: missing_tool, needs_integration_adapter. It has
  // the preset (usage), which is of this engine (missing_runtime).
  Outcome can_run(std::string_view preset, std::string_view engine) const;
  // It takes these preset fields with these values; else a usage error in its own words.
  Outcome accepts(std::string_view preset, const Json& overrides) const;
  // Hash of the program file and the preset's description: part of the evidence's identity.
  Result<std::string> identity(const TrainerPreset& preset) const;
  // An Error only when the trainer could not be started or its stream not be read; whatever else
  // goes wrong is in the run.
  Result<TrainerRun> run(const TrainerPlan& plan, double timeout_seconds) const;

 private:
  Result<Json> ask(std::vector<std::string> question) const;
  std::filesystem::path program_;
  std::vector<std::string> arguments_;
};

}  // namespace kl
