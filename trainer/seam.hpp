// The seams of a step, as the model sees them: places that a kernel library can take over.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace kl::trainer {

enum class Seam : uint8_t {
  rmsnorm,
  residual_blend,
  launch_fusion,
  residual_rmsnorm,
  rotary_embedding,
  qk_rmsnorm,
  rope_qk_fused,
  ve_lookup_reshape,
  value_embed_gate,
  flash_attention,
  activation_pointwise,
  loss_prelude,
};

// What the step hands over, in the order of the target's spec; "-" where there is no backward.
struct SeamContract {
  Seam seam;
  std::string_view key;  // of the target, and the seam's name
  std::string_view forward, backward;
};
const SeamContract& contract_of(Seam seam);

// Forward and backward of a seam always come from the same implementation; `site` says which call of the
// step it is, because each keeps its own `saved`. An absent optional tensor is a null pointer.
template <class R>
class Seams {
 public:
  virtual ~Seams() = default;
  virtual void forward(Seam seam, int site, std::initializer_list<const void*> inputs,
                       std::initializer_list<void*> outputs) = 0;
  virtual void backward(Seam seam, int site, std::initializer_list<const void*> inputs,
                        std::initializer_list<void*> outputs) = 0;
};

}  // namespace kl::trainer
