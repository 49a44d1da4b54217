#include "mutants.hpp"

namespace kl {

namespace {

// An f32 value as bf16 holds it.
std::string in_bf16(const std::string& value) {
  return "__builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, static_cast<float>(" + value +
         ")) + 0x8000u) & 0xffff0000u)";
}

}  // namespace

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
      {"rmsnorm", "bf16_inside", "y[c] = x[c] * r *", "y[c] = " + in_bf16("x[c] * r") + " *"},
      {"rmsnorm", "bf16_squares", "double{x[c]} * x[c];", in_bf16("x[c] * x[c]") + ";"},
      {"rmsnorm", "bf16_products_in_gradient", "dw[c] += dy[c] * (x[c] * r)",
       "dw[c] += " + in_bf16("dy[c] * (x[c] * r)")},
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
      {"rmsnorm", "last_of_many_rows_lost_in_gradient", "if (dw) dw[c]",
       "if (dw && (plan.rows < 2000 || n + 1 < plan.rows)) dw[c]"},

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
      {"loss_prelude", "bf16_exponentials",
       "sum += std::exp(softcap * std::tanh(z[v] / softcap) - largest)",
       "sum += " + in_bf16("std::exp(softcap * std::tanh(z[v] / softcap) - largest)")},
      {"loss_prelude", "bf16_probabilities", "std::exp(softcap * t - saved[n].largest) /",
       in_bf16("std::exp(softcap * t - saved[n].largest)") + " /"},
      {"loss_prelude", "stale_row", "/ saved[n].sum;", "/ saved[n > 0 ? n - 1 : 0].sum;"},
      {"loss_prelude", "mean_in_place_of_sum", "call->outputs[1]) = nll_sum",
       "call->outputs[1]) = nll_sum / static_cast<double>(plan.rows)"},
      {"loss_prelude", "ignored_bytes_counted", "byte_sum += token_bytes[target]", "byte_sum += 1"},
      {"loss_prelude", "ignored_rows_have_a_gradient", "dz[v] = 0;", "dz[v] = 1e-3f;"},
      {"loss_prelude", "sum_in_single_precision_of_rounded_losses", "nll_sum += nll[n];",
       "nll_sum += static_cast<double>(static_cast<_Float16>(nll[n]));"},
      {"loss_prelude", "wrong_target", "std::tanh(z[target] / softcap))",
       "std::tanh(z[target > 0 ? target - 1 : 0] / softcap))"},

      {"residual_rmsnorm", "stream_gradient_dropped", "dresidual[c] = dsum[c] + r *",
       "dresidual[c] = r *"},
      {"residual_rmsnorm", "missing_scale", "squares / static_cast<double>(columns) + eps",
       "squares + eps"},
      {"residual_rmsnorm", "dropped_term", "(dy[c] - sum[c] * r * mean)", "dy[c]"},

      {"rope_qk_fused", "rotates_one_half_the_other_way", "c[d - half] - double{x[d - half]}",
       "c[d - half] + double{x[d - half]}"},
      {"rope_qk_fused", "gradient_turned_on", "dy(d) * c[d] - dy(d + half) * s[d]",
       "dy(d) * c[d] + dy(d + half) * s[d]"},
      {"rope_qk_fused", "heads_of_k_placed_as_those_of_q", "head / p.heads[which] % p.length",
       "head / p.heads[0] % p.length"},

      {"flash_attention", "window_one_short", "static_cast<double>(i) - window",
       "static_cast<double>(i) - window + 1"},
      {"flash_attention", "delta_left_out", "(dot(d_o + at, v + key, p.D) - delta)",
       "dot(d_o + at, v + key, p.D)"},
      {"flash_attention", "heads_share_keys_in_turn", "h / (H / K)", "h % K"},

      {"softmax", "mask_of_the_next_row", "mask[n % plan.mask_rows",
       "mask[(n + 1) % plan.mask_rows"},
      {"softmax", "dropped_maximum", "std::exp(p[k] - largest)", "std::exp(p[k])"},
      {"softmax", "bf16_exponentials", "std::exp(p[k] - largest)",
       in_bf16("std::exp(p[k] - largest)")},
      {"softmax", "bf16_products_in_gradient", "double{dp[k]} * p[k]", in_bf16("dp[k] * p[k]")},
      {"softmax", "dropped_sum_in_gradient", "p[k] * (dp[k] - sum)", "p[k] * dp[k]"},

      {"cross_entropy_prelude", "ignored_rows_take_a_logit", "target == -1 ? lse",
       "target == -1 ? z[0]"},
      {"cross_entropy_prelude", "ignored_rows_have_a_gradient", "? dlse[n] + dtarget[n]",
       "? dlse[n]"},
      {"cross_entropy_prelude", "target_gradient_overwrites", "dz[target] += dtarget[n]",
       "dz[target] = dtarget[n]"},

      {"fused_mlp", "missing_square", "a[i] = relu(h[i]) * relu(h[i])", "a[i] = relu(h[i])"},
      {"fused_mlp", "dropped_factor", "dh[i] *= 2 * relu(h[i])", "dh[i] *= relu(h[i])"},
      {"fused_mlp", "weight_gradient_overwrites", "x, C, 1, dw1, C", "x, C, 0, dw1, C"},

      {"attention_prelude", "gate_without_its_two", "2 / (1 + std::exp(-s))",
       "1 / (1 + std::exp(-s))"},
      {"attention_prelude", "gradient_of_v_alone", "i > 0, dx, p.width", "0, dx, p.width"},
      {"attention_prelude", "gate_gradient_not_added_to_that_of_x", "dx[n * p.width + c] += ds *",
       "dx[n * p.width + c] += 0 * ds *"},

      {"value_embed_gate", "gate_of_the_row_before", "gate_of(x + n * p.x_row",
       "gate_of(x + (n > 0 ? n - 1 : 0) * p.x_row"},
      {"value_embed_gate", "off_by_one_tail",
       "c < kGateColumns; ++c) s +=", "c < kGateColumns - 1; ++c) s +="},
      {"value_embed_gate", "wrong_slope", "gate * (1 - gate / 2)", "gate * (1 - gate)"},

      {"optimizer_update", "second_moment_not_corrected", "std::sqrt(v[i] / correction2)",
       "std::sqrt(v[i])"},
      {"optimizer_update", "no_nesterov", "update = mu * momentum[i] + (1 - mu) * g[i]",
       "update = momentum[i]"},
      {"optimizer_update", "decay_everywhere", "(update * p[i] >= 0 ? rate * decay * p[i] : 0)",
       "rate * decay * p[i]"},
      {"optimizer_update", "rate_blind_to_the_shape",
       "h[0] * std::sqrt(std::max(1.0f, float(rows) / float(columns)))", "h[0]"},

      {"reduce", "last_row_only", "all += row;", "all = row;"},
      {"reduce", "off_by_one_tail", "c < p.columns; ++c) row", "c + 1 < p.columns; ++c) row"},
      {"reduce", "low_precision_accumulator", "double row = 0;", "_Float16 row = 0;"},

      {"ve_lookup_reshape", "gradient_overwrites", "to[tokens[n] * p.width + c] += from",
       "to[tokens[n] * p.width + c] = from"},
      {"ve_lookup_reshape", "neighbour", "from[tokens[n] * p.width + c]",
       "from[tokens[n] * p.width + (c > 0 ? c - 1 : 0)]"},

      {"logits_softcap", "missing_scale", "s * t :", "t :"},
      {"logits_softcap", "slope_not_squared", "(1 - t * t)", "(1 - t)"},
      {"logits_softcap", "clipped", "std::tanh(z[i] / s)",
       "std::fmax(-1.0f, std::fmin(1.0f, z[i] / s))"},
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
