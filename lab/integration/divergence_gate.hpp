// L2 in practice: how far one unit in the last place in a seam's output drives the loss curve
// apart. Measured once per preset, seam and identity, then read from the cache.
#pragma once

#include <lab/integration/gates.hpp>

#include <filesystem>
#include <optional>
#include <vector>

namespace kl {

inline constexpr int64_t kDivergenceSteps = 200;
inline constexpr int kPerturbedReplicates = 3;

struct PerturbedDivergence {
  int64_t steps = 0;              // first steps of the run that were compared
  std::vector<double> replicates; // rms loss difference of each perturbed baseline
  std::optional<double> reference;  // the same of the target's plain reference; asked for when the candidate's is larger

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("steps", self.steps, "first steps of the run that were compared");
    v("replicates", self.replicates, "rms loss difference of each perturbed baseline, nats");
    v("reference", self.reference, "rms loss difference of the plain reference in the seam; null: it was not needed");
  }
};

struct DivergenceKey {
  std::string seam;
  std::string trainer;            // program and preset
  std::string fingerprint_class;
};

// `baseline` is the unperturbed curve of the same session. An empty list of replicates: the
// trainer refused the perturbation, or ignored it.
Result<PerturbedDivergence> perturbed_divergence(PairSession& session, const DivergenceKey& key,
                                                 const LossCurve& baseline,
                                                 const std::filesystem::path& cache,
                                                 const Progress& progress);

}  // namespace kl
