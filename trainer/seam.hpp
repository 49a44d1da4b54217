// The seams of a step, as the model sees them: places that a kernel library can take over.
#pragma once

#include <kernel_lab/kernel.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace kl::trainer {

enum class Seam : uint8_t {
  rmsnorm,
  residual_blend,
  block_prelude,
  attention_prelude,
  ve_lookup_reshape,
  value_embed_gate,
  rotary_embedding,
  qk_rmsnorm,
  rope_qk_fused,
  flash_attention,
  proj_head_reshape,
  attention_mask_local,
  softmax,
  data_movement,
  matmul_epilogue,
  launch_fusion,
  residual_rmsnorm,
  fused_mlp,
  activation_pointwise,
  cross_entropy_full,
  loss_prelude,
  logits_softcap,
  cross_entropy_prelude,
  reduce,
  optimizer_update,
};

// Operations of the seams that have no backward.
enum { kSum = 0, kSumOfSquares = 1 };
enum { kAdamW = 0, kMuon = 1 };

// What the step hands over, in the order of the target's spec: "x w -> y".
struct SeamOperation {
  std::string_view name, tensors;
};
struct SeamContract {
  Seam seam;
  std::string_view key;         // of the target, and the seam's name
  SeamOperation operations[2];  // as in the spec; the second may be unnamed: there is none
  std::string_view opened_by;   // "region=value …" that put it on the path; empty: always there
  std::span<const SeamOperation> all() const {
    return {operations, operations[1].name.empty() ? size_t{1} : size_t{2}};
  }
};
std::span<const SeamContract> contracts();
const SeamContract& contract_of(Seam seam);
const SeamContract& contract_of(std::string_view key);

// All operations of a seam come from the same implementation; `site` says which call of the step it
// is, because each keeps its own `saved`. An absent optional tensor is a null pointer.
template <class R>
class Seams {
 public:
  virtual ~Seams() = default;
  // `operation` counts those of the seam's contract.
  virtual void run(Seam seam, int operation, int site, std::initializer_list<const void*> inputs,
                   std::initializer_list<void*> outputs) = 0;
  void forward(Seam seam, int site, std::initializer_list<const void*> inputs,
               std::initializer_list<void*> outputs) {
    run(seam, KL_FORWARD, site, inputs, outputs);
  }
  void backward(Seam seam, int site, std::initializer_list<const void*> inputs,
                std::initializer_list<void*> outputs) {
    run(seam, KL_BACKWARD, site, inputs, outputs);
  }
};

}  // namespace kl::trainer
