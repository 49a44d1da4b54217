// The family of a kernel by the operator that launched it.
#pragma once

#include <string_view>

namespace kl::trace {

struct OperatorRule {
  std::string_view op, family;
  double confidence;
};

// Of PyTorch's operators ("aten::mm", "aten::_scaled_dot_product_flash_attention_backward"): the same with and without
// backward, in place or not, of whichever library; and of the NVTX ranges it makes of them ("aten::mm, seq = 12"). nullptr: not one of them, or one that says too little.
const OperatorRule* rule_of_operator(std::string_view name);

}  // namespace kl::trace
