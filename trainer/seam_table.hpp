// The seam table of a preset: which target fills which seam, at which shapes and sites.
#pragma once

#include <lab/target/seam_shape.hpp>
#include <trainer/config.hpp>
#include <trainer/seam.hpp>

#include <string>
#include <vector>

namespace kl::trainer {

// The calls of one forward pass that a seam makes at one shape.
struct SeamCalls {
  SeamShape shape;
  std::vector<int> sites;
};
struct SeamUse {
  Seam seam;
  std::vector<SeamCalls> calls;
};
// Those on the path that the preset's regions choose, on the CPU.
std::vector<SeamUse> seam_table(const Config& config);

// Sites of rmsnorm: the embedding's, two of each layer, the final one. Other seams but the adds are
// called once a layer (the layer is the site) or once (site 0).
inline int embedding_norm() { return 0; }
inline int first_norm(int64_t layer) { return static_cast<int>(1 + 2 * layer); }
inline int second_norm(int64_t layer) { return static_cast<int>(2 + 2 * layer); }
inline int final_norm(int64_t layers) { return static_cast<int>(1 + 2 * layers); }
inline int attention_add(int64_t layer) {
  return static_cast<int>(2 * layer);
}  // launch_fusion, residual_rmsnorm
inline int mlp_add(int64_t layer) { return static_cast<int>(2 * layer + 1); }
inline int layer_site(int64_t layer) { return static_cast<int>(layer); }

struct SeamDescription {
  std::string seam;
  std::string target;
  std::vector<SeamShape> shapes;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("seam", self.seam, "place in the step");
    v("target", self.target, "target whose library fills it");
    v("shapes", self.shapes, "shapes at which the step calls it");
  }
};
// What `kernel-lab-train seams` prints, on any device (docs/trainer-protocol.md).
std::vector<SeamDescription> describe_seams(const Config& config);

}  // namespace kl::trainer
