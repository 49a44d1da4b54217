#include "mutants.hpp"

namespace kl {

const std::vector<Mutant>& seeded_bugs() {
  static const std::vector<Mutant> bugs = {
      {"rmsnorm", "dropped_term", "(w ? w[c] : 1.0f) - x[c] * r * mean)", "(w ? w[c] : 1.0f))"},
      {"rmsnorm", "wrong_epsilon", "+ eps)", "+ 10 * eps)"},
      {"rmsnorm", "missing_epsilon", "+ eps)", "+ 0 * eps)"},
      {"rmsnorm", "off_by_one_tail", "c < plan.columns; ++c) y[c]",
       "c + 1 < plan.columns; ++c) y[c]"},
      {"rmsnorm", "stale_row", "inverse_rms(x, plan.columns",
       "inverse_rms(n > 0 ? x - plan.columns : x, plan.columns"},
      {"rmsnorm", "low_precision_accumulator",
       "double sum = 0;\n  for (int64_t c = 0; c < columns; ++c) sum += double{x[c]} * x[c];",
       "_Float16 sum = 0;\n  for (int64_t c = 0; c < columns; ++c) sum += "
       "static_cast<_Float16>(x[c] * x[c]);"},
      {"rmsnorm", "missing_scale", "sum / static_cast<double>(columns) + eps", "sum + eps"},
      {"rmsnorm", "mean_over_one_too_few", "sum / static_cast<double>(columns) + eps",
       "sum / static_cast<double>(columns > 1 ? columns - 1 : 1) + eps"},
      {"rmsnorm", "wrong_reduction_axis", "dw[c] += dy[c]", "dw[n % plan.columns] += dy[c]"},
      {"rmsnorm", "dropped_1_over_n_in_gradient", "sum / static_cast<double>(plan.columns)", "sum"},
      {"rmsnorm", "gradient_overwrites", "dw[c] += dy[c]", "dw[c] = dy[c]"},
      {"rmsnorm", "weight_missing_in_gradient",
       "sum += double{dy[c]} * (w ? w[c] : 1.0f) * x[c] * r", "sum += double{dy[c]} * x[c] * r"},
      {"rmsnorm", "flipped_sign", "1.0f) - x[c] * r * mean", "1.0f) + x[c] * r * mean"},
      {"rmsnorm", "first_rows_gradient_only", "if (dw) dw[c]", "if (dw && n < 4) dw[c]"},

      {"activation_pointwise", "dropped_factor", "2 * relu(h[i]) * dy[i]", "relu(h[i]) * dy[i]"},
      {"activation_pointwise", "missing_relu", "return h < 0 ? 0 : h;", "return h;"},
      {"activation_pointwise", "leaky_relu", "h < 0 ? 0 : h", "h < 0 ? 1e-4f * h : h"},
      {"activation_pointwise", "missing_square", "relu(h[i]) * relu(h[i])", "relu(h[i])"},
      {"activation_pointwise", "off_by_one_tail", "i < p.elements; ++i) out[i] = relu",
       "i < p.elements - 1; ++i) out[i] = relu"},
      {"activation_pointwise", "upstream_gradient_ignored", "2 * relu(h[i]) * dy[i]",
       "2 * relu(h[i])"},
      {"activation_pointwise", "half_precision_inside", "out[i] = relu(h[i]) * relu(h[i])",
       "out[i] = static_cast<float>(static_cast<_Float16>(relu(h[i]) * relu(h[i])))"},
      {"activation_pointwise", "nan_becomes_zero", "h < 0 ? 0 : h", "h > 0 ? h : 0"},
      {"activation_pointwise", "saturates", "h < 0 ? 0 : h", "h < 0 ? 0 : (h > 100 ? 100 : h)"},
      {"activation_pointwise", "neighbour", "2 * relu(h[i]) * dy[i]",
       "2 * relu(h[i]) * dy[i > 0 ? i - 1 : 0]"},

      {"loss_prelude", "missing_softcap_derivative", "* (1.0f - t * t)", ""},
      {"loss_prelude", "softcap_derivative_not_squared", "(1.0f - t * t)", "(1.0f - t)"},
      {"loss_prelude", "missing_scale", "lse - softcap * std::tanh(z[target] / softcap)",
       "lse - std::tanh(z[target] / softcap)"},
      {"loss_prelude", "missing_one_hot", "(p - (v == target ? 1.0f : 0.0f))", "p"},
      {"loss_prelude", "mask_off_by_one", "v == target ? 1.0f", "v == target + 1 ? 1.0f"},
      {"loss_prelude", "upstream_gradient_ignored", "dz[v] = g *", "dz[v] = 1.0f *"},
      {"loss_prelude", "dropped_maximum", "largest + std::log(sum)", "std::log(sum)"},
      {"loss_prelude", "off_by_one_tail",
       "for (int64_t v = 0; v < plan.vocabulary; ++v)\n      sum",
       "for (int64_t v = 0; v < plan.vocabulary - 1; ++v)\n      sum"},
      {"loss_prelude", "low_precision_accumulator", "sum += std::exp(",
       "sum = static_cast<_Float16>(sum) + std::exp("},
      {"loss_prelude", "stale_row", "/ saved[n].sum;", "/ saved[n > 0 ? n - 1 : 0].sum;"},
      {"loss_prelude", "mean_in_place_of_sum", "call->outputs[1]) = nll_sum",
       "call->outputs[1]) = nll_sum / static_cast<double>(plan.rows)"},
      {"loss_prelude", "ignored_bytes_counted", "byte_sum += token_bytes[target]", "byte_sum += 1"},
      {"loss_prelude", "ignored_rows_have_a_gradient", "dz[v] = 0;", "dz[v] = 1e-3f;"},
      {"loss_prelude", "sum_in_single_precision_of_rounded_losses", "nll_sum += nll[n];",
       "nll_sum += static_cast<double>(static_cast<_Float16>(nll[n]));"},
      {"loss_prelude", "wrong_target", "std::tanh(z[target] / softcap))",
       "std::tanh(z[target > 0 ? target - 1 : 0] / softcap))"},
  };
  return bugs;
}

const std::vector<Mutant>& honest_variants() {
  static const std::vector<Mutant> variants = {
      {"rmsnorm", "unchanged", "#include <cmath>", "#include <cmath>"},
      {"rmsnorm", "sum_in_reverse",
       "for (int64_t c = 0; c < columns; ++c) sum += double{x[c]} * x[c];",
       "for (int64_t c = columns - 1; c >= 0; --c) sum += double{x[c]} * x[c];"},
      {"rmsnorm", "sum_in_single_precision",
       "double sum = 0;\n  for (int64_t c = 0; c < columns; ++c) sum += double{x[c]} * x[c];",
       "float sum = 0;\n  for (int64_t c = 0; c < columns; ++c) sum += x[c] * x[c];"},
      {"rmsnorm", "no_fused_multiply_add", "#include <kernel_lab/kernel.hpp>",
       "#pragma GCC optimize(\"fp-contract=off\")\n#include <kernel_lab/kernel.hpp>"},
      {"rmsnorm", "scaled_after_weight", "y[c] = x[c] * r * (w ? w[c] : 1.0f)",
       "y[c] = r * (x[c] * (w ? w[c] : 1.0f))"},
      {"rmsnorm", "gradient_sum_in_single_precision",
       "double sum = 0;\n    for (int64_t c = 0; c < plan.columns; ++c)\n      sum += "
       "double{dy[c]}",
       "float sum = 0;\n    for (int64_t c = 0; c < plan.columns; ++c)\n      sum += dy[c]"},
      {"activation_pointwise", "unchanged", "float relu", "float relu"},
      {"activation_pointwise", "double_inside", "out[i] = relu(h[i]) * relu(h[i])",
       "out[i] = static_cast<float>(double{relu(h[i])} * relu(h[i]))"},
      {"activation_pointwise", "other_order", "2 * relu(h[i]) * dy[i]", "relu(h[i]) * dy[i] * 2"},
      {"activation_pointwise", "backwards", "for (int64_t i = 0; i < p.elements; ++i) out[i] = 2",
       "for (int64_t i = p.elements - 1; i >= 0; --i) out[i] = 2"},
      {"loss_prelude", "unchanged", "#include <cmath>", "#include <cmath>"},
      {"loss_prelude", "sum_in_reverse", "for (int64_t v = 0; v < plan.vocabulary; ++v)\n      sum",
       "for (int64_t v = plan.vocabulary - 1; v >= 0; --v)\n      sum"},
      {"loss_prelude", "sum_in_single_precision", "double sum = 0;\n    for",
       "float sum = 0;\n    for"},
      {"loss_prelude", "no_fused_multiply_add", "#include <kernel_lab/kernel.hpp>",
       "#pragma GCC optimize(\"fp-contract=off\")\n#include <kernel_lab/kernel.hpp>"},
      {"loss_prelude", "reciprocal_of_softcap", "const float t = std::tanh(z[v] / softcap)",
       "const float t = std::tanh(z[v] * (1.0f / softcap))"},
      {"loss_prelude", "loss_sum_in_single_precision", "double nll_sum = 0, byte_sum = 0;",
       "float nll_sum = 0, byte_sum = 0;"},
  };
  return variants;
}

}  // namespace kl
