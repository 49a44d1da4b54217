// The seam table of a preset: which target fills which seam, at which shapes and sites.
#pragma once

#include <lab/target/seam_shape.hpp>
#include <trainer/config.hpp>
#include <trainer/seam.hpp>

#include <map>
#include <string>
#include <vector>

namespace kl::trainer {

// The calls of one micro-batch, or of the update, that a seam makes at one shape.
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
std::vector<int64_t> distinct_windows(const Config& config);  // ascending

// Sites of rmsnorm: the embedding's, two of each layer, the final one. Other seams but the adds are
// called once a layer (the layer is the site) or once (site 0).
inline int embedding_norm() { return 0; }
inline int first_norm(int64_t layer) { return static_cast<int>(1 + 2 * layer); }
inline int second_norm(int64_t layer) { return static_cast<int>(2 + 2 * layer); }
inline int final_norm(int64_t layers) { return static_cast<int>(1 + 2 * layers); }
inline int attention_add(int64_t layer) {
  return static_cast<int>(2 * layer);
}  // launch_fusion, residual_rmsnorm, matmul_epilogue
inline int mlp_add(int64_t layer) { return static_cast<int>(2 * layer + 1); }
inline int lm_head_site(int64_t layers) { return static_cast<int>(2 * layers); }  // matmul_epilogue, else the adds' sites
inline int query_reshape(int64_t layer) { return static_cast<int>(3 * layer); }
inline int key_reshape(int64_t layer) { return static_cast<int>(3 * layer + 1); }
inline int value_reshape(int64_t layer) { return static_cast<int>(3 * layer + 2); }
inline int gradient_norm() { return 0; }  // reduce
inline int loss_sum() { return 1; }
inline int layer_site(int64_t layer) { return static_cast<int>(layer); }

struct SeamDescription {
  std::string seam;
  std::string target;
  std::vector<SeamShape> shapes;
  std::map<std::string, std::string> opened_by;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("seam", self.seam, "place in the step");
    v("target", self.target, "target whose library fills it");
    v("shapes", self.shapes, "shapes at which the step calls it");
    v("opened_by", self.opened_by, "preset fields that put it on the path; empty: it is");
  }
};
// What `kernel-lab-train seams` prints, on any device (docs/trainer-protocol.md).
std::vector<SeamDescription> describe_seams(const Config& config);
// Seams of other paths than the preset's, at the shapes they have when opened.
std::vector<SeamDescription> describe_shadowed_seams(const Config& config);

}  // namespace kl::trainer
