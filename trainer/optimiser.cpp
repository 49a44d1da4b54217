#include <trainer/optimiser.hpp>

#include <trainer/range_log.hpp>
#include <trainer/seam_table.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kl::trainer {

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

double muon_momentum(const Config& c, int64_t t) {
  const double risen = c.muon_momentum_steps > 0
                           ? std::min(1.0, static_cast<double>(t - 1) / c.muon_momentum_steps)
                           : 1;
  return c.muon_momentum_start + risen * (c.muon_momentum - c.muon_momentum_start);
}

Optimiser::Optimiser(const Config& config, const Layout& layout, Seams<float>& seams)
    : config_(config),
      size_(layout.size()),
      seams_(seams),
      parts_(layout.adamw_parts(config)),
      stacks_(layout.muon_stacks(config)),
      hyper_(parts_.size()) {
  size_t adam = 0, muon = 0, sides = 0;
  for (const Part& part : parts_) adam += static_cast<size_t>(part.size);
  for (const Stack& s : stacks_) {
    muon += static_cast<size_t>(s.size());
    sides += static_cast<size_t>(s.count * std::max(s.rows, s.columns));
  }
  m_.resize(adam);
  v_.resize(adam);
  momentum_.resize(muon);
  second_moment_.resize(sides);
}

OptimiserState Optimiser::state() {
  const auto flat = [](auto& values) {
    return std::vector<int64_t>{static_cast<int64_t>(values.size())};
  };
  OptimiserState state{t_, {{"adamw.first_moment", flat(m_), m_}, {"adamw.second_moment", flat(v_), v_}}};
  if (stacks_.empty()) return state;
  state.tensors.push_back({"muon.momentum", flat(momentum_), momentum_});
  state.tensors.push_back({"muon.second_moment", flat(second_moment_), second_moment_});
  return state;
}

double Optimiser::step(float* weights, float* gradients, double progress) {
  ++t_;
  double squares = 0;
  seams_.run(Seam::reduce, kSumOfSquares, gradient_norm(), {gradients}, {nullptr, &squares});
  const double factor = schedule(progress, config_.decay_fraction);
  const auto t = static_cast<double>(t_);
  int64_t at = 0;
  for (size_t k = 0; k < parts_.size(); ++k) {
    const Part& part = parts_[k];
    const AdamSetting s = adam_setting(config_, part.group);
    const double settings[] = {factor * s.rate, s.beta1, s.beta2, s.eps, 0,
                               1 - std::pow(s.beta1, t), 1 - std::pow(s.beta2, t)};
    std::transform(std::begin(settings), std::end(settings), hyper_[k].begin(),
                   [](double value) { return static_cast<float>(value); });
    seams_.run(Seam::optimizer_update, kAdamW, static_cast<int>(k),
               {gradients + part.offset, hyper_[k].data()},
               {weights + part.offset, m_.data() + at, v_.data() + at});
    at += part.size;
  }
  muon_hyper_ = {static_cast<float>(factor * config_.lr_muon),
                 static_cast<float>(muon_momentum(config_, t_)),
                 static_cast<float>(config_.muon_beta2),
                 static_cast<float>(config_.muon_decay * (1 - progress))};
  int64_t moment = 0, side = 0;
  for (size_t k = 0; k < stacks_.size(); ++k) {
    const Stack& s = stacks_[k];
    seams_.run(Seam::optimizer_update, kMuon, static_cast<int>(k),
               {gradients + s.offset, muon_hyper_.data()},
               {weights + s.offset, momentum_.data() + moment, second_moment_.data() + side});
    moment += s.size();
    side += s.count * std::max(s.rows, s.columns);
  }
  const RangeScope range(Pass::clear);
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size_; ++i) gradients[i] = 0;
  return std::sqrt(squares);
}

}  // namespace kl::trainer
