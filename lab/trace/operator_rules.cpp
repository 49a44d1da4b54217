#include <lab/trace/operator_rules.hpp>

#include <algorithm>
#include <array>

namespace kl::trace {
namespace {

// clang-format off
// Without what rule_of_operator strips. Operators that only call others (linear, matmul of many dimensions) are not needed:
// the source names the innermost.
constexpr std::array kRules = {
  OperatorRule{"mm", "matmul", .95}, OperatorRule{"bmm", "matmul", .95}, OperatorRule{"addmm", "matmul", .95}, OperatorRule{"baddbmm", "matmul", .95},
  OperatorRule{"addmv", "matmul", .95}, OperatorRule{"mv", "matmul", .95}, OperatorRule{"dot", "matmul", .95}, OperatorRule{"linear", "matmul", .9},
  OperatorRule{"matmul", "matmul", .9}, OperatorRule{"addmm_activation", "matmul", .95}, OperatorRule{"scaled_mm", "matmul", .95}, OperatorRule{"grouped_mm", "matmul", .95},
  OperatorRule{"scaled_dot_product_flash_attention", "flash_attention", .95}, OperatorRule{"scaled_dot_product_efficient_attention", "flash_attention", .95},
  OperatorRule{"scaled_dot_product_cudnn_attention", "flash_attention", .95}, OperatorRule{"scaled_dot_product_fused_attention_overrideable", "flash_attention", .95},
  OperatorRule{"flash_attention", "flash_attention", .95}, OperatorRule{"efficient_attention", "flash_attention", .95},
  OperatorRule{"convolution", "conv", .9}, OperatorRule{"convolution_transpose", "conv", .9}, OperatorRule{"conv_depthwise2d", "conv", .95},
  OperatorRule{"slow_conv2d", "conv", .9}, OperatorRule{"depthwise_convolution", "conv", .9}, OperatorRule{"convolution_relu", "conv", .9},
  OperatorRule{"layer_norm", "norm", .95}, OperatorRule{"group_norm", "norm", .95}, OperatorRule{"batch_norm", "norm", .95},
  OperatorRule{"batch_norm_legit", "norm", .95}, OperatorRule{"fused_rms_norm", "norm", .95}, OperatorRule{"rms_norm", "norm", .9},
  OperatorRule{"softmax", "softmax", .95}, OperatorRule{"log_softmax", "softmax_logsoftmax", .95},
  OperatorRule{"nll_loss", "loss", .95}, OperatorRule{"nll_loss2d", "loss", .95}, OperatorRule{"cross_entropy_loss", "loss", .9},
  OperatorRule{"binary_cross_entropy", "loss", .95}, OperatorRule{"mse_loss", "loss", .9}, OperatorRule{"smooth_l1_loss", "loss", .9},
  OperatorRule{"embedding", "embedding", .95}, OperatorRule{"embedding_dense", "embedding", .95}, OperatorRule{"embedding_bag", "embedding", .95}, OperatorRule{"index_select", "embedding", .7},
  OperatorRule{"gelu", "fused_mlp_act", .95}, OperatorRule{"silu", "fused_mlp_act", .95}, OperatorRule{"glu", "fused_mlp_act", .95},
  OperatorRule{"fused_adam", "optimizer", .95}, OperatorRule{"fused_adamw", "optimizer", .95}, OperatorRule{"fused_sgd", "optimizer", .95},
  OperatorRule{"max_pool2d_with_indices", "pooling", .95}, OperatorRule{"avg_pool2d", "pooling", .95}, OperatorRule{"adaptive_avg_pool2d", "pooling", .95},
  OperatorRule{"sum", "reduction", .9}, OperatorRule{"mean", "reduction", .9}, OperatorRule{"argmax", "reduction", .9}, OperatorRule{"linalg_vector_norm", "reduction", .9},
  OperatorRule{"sort", "sort_scan", .9}, OperatorRule{"topk", "sort_scan", .9}, OperatorRule{"cumsum", "sort_scan", .9}, OperatorRule{"nonzero", "sort_scan", .9},
  OperatorRule{"copy", "data_movement", .9}, OperatorRule{"cat", "data_movement", .95}, OperatorRule{"fill", "data_movement", .9}, OperatorRule{"zero", "data_movement", .9},
  OperatorRule{"index", "data_movement", .8}, OperatorRule{"index_put_impl", "data_movement", .8}, OperatorRule{"gather", "data_movement", .9}, OperatorRule{"scatter", "data_movement", .9},
  OperatorRule{"arange", "index_helper", .95},
};
// clang-format on

}  // namespace

const OperatorRule* rule_of_operator(std::string_view name) {
  constexpr std::string_view kSpace = "aten::";
  if (!name.starts_with(kSpace)) return nullptr;
  name.remove_prefix(kSpace.size());
  name = name.substr(0, name.find_first_of(".,"));  // the overload; behind a comma, what a range says more
  if (name.starts_with("_foreach_")) {
    static constexpr OperatorRule kForeach{"foreach", "optimizer", .7};
    return &kForeach;
  }
  const auto end = [&](std::string_view suffix) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  };
  const auto begin = [&](std::string_view prefix) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  };
  end("_");
  begin("_");
  end("_data");
  end("_backward");
  end("_forward");
  for (const std::string_view library : {"native_", "cudnn_", "miopen_", "thnn_", "mkldnn_"}) begin(library);
  const auto rule = std::find_if(kRules.begin(), kRules.end(), [&](const OperatorRule& r) { return r.op == name; });
  return rule == kRules.end() ? nullptr : &*rule;
}

}  // namespace kl::trace
