#include <trainer/adamw.hpp>

#include <algorithm>

namespace kl::trainer {
namespace {

constexpr int64_t kBlock = 16384;

}  // namespace

AdamSetting adam_setting(const Config& c, Group group) {
  const double width_factor = 1 / std::sqrt(static_cast<double>(c.width) / 768);
  AdamSetting setting{c.lr_matrix, c.beta1, c.beta2, c.adam_eps};
  switch (group) {
    case Group::head: setting.rate = c.lr_head * width_factor; break;
    case Group::embedding: setting.rate = c.lr_embedding * width_factor; break;
    case Group::value_embedding: setting.rate = c.lr_value_embedding * width_factor; break;
    case Group::matrix: break;
    case Group::lambda: setting.rate = c.lr_lambda; break;
    case Group::mu:
      setting.rate = c.lr_mu;
      setting.beta1 = c.beta1_mu;
      break;
  }
  return setting;
}

double schedule(double progress, double decay_fraction) {
  if (progress <= 1 - decay_fraction || decay_fraction == 0) return 1;
  return std::max(0.0, (1 - progress) / decay_fraction);
}

AdamW::AdamW(const Config& config, const Layout& layout)
    : config_(config), layout_(layout), m_(static_cast<size_t>(layout.size())),
      v_(static_cast<size_t>(layout.size())) {
  int64_t blocks = 0;
  for (const Parameter& p : layout.parameters())
    blocks = std::max(blocks, (p.size + kBlock - 1) / kBlock);
  partial_.resize(static_cast<size_t>(blocks));
}

OptimiserState AdamW::state() {
  const std::vector<int64_t> shape = {layout_.size()};
  return {t_, {{"adamw.first_moment", shape, m_}, {"adamw.second_moment", shape, v_}}};
}

double AdamW::step(float* weights, float* gradients, double factor) {
  ++t_;
  double squares = 0;
  for (const Parameter& p : layout_.parameters()) {
    const AdamSetting s = adam_setting(config_, p.group);
    const auto t = static_cast<double>(t_);
    const auto beta1 = static_cast<float>(s.beta1), beta2 = static_cast<float>(s.beta2);
    const auto rate = static_cast<float>(factor * s.rate / (1 - std::pow(s.beta1, t)));
    const auto correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, t)));
    const auto eps = static_cast<float>(s.eps);
    float* w = weights + p.offset;
    float* g = gradients + p.offset;
    float* m = m_.data() + p.offset;
    float* v = v_.data() + p.offset;
    const int64_t blocks = (p.size + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < blocks; ++b) {
      float sum = 0;
      const int64_t end = std::min(p.size, (b + 1) * kBlock);
#pragma omp simd reduction(+ : sum)
      for (int64_t i = b * kBlock; i < end; ++i) {
        sum += g[i] * g[i];
        w[i] = adam_element(w[i], g[i], m[i], v[i], beta1, beta2, rate, correction2, eps);
        g[i] = 0;
      }
      partial_[static_cast<size_t>(b)] = static_cast<double>(sum);
    }
    for (int64_t b = 0; b < blocks; ++b) squares += partial_[static_cast<size_t>(b)];
  }
  return std::sqrt(squares);
}

}  // namespace kl::trainer
