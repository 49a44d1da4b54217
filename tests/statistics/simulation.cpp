#include "simulation.hpp"

#include <lab/stats/moments.hpp>

#include <cmath>

namespace kl::simulation {

namespace {

// A quarter of the noise per run: strong enough that an order that does not cancel it is misled.
constexpr double kDriftPerRun = 0.25;

}  // namespace

std::string name(Noise noise) {
  static constexpr const char* kNames[] = {"independent", "linear drift", "AR(1) 0.8",
                                           "t, 3 degrees", "10 % outliers", "sticky clock"};
  return kNames[static_cast<size_t>(noise)];
}

std::string name(Order order) {
  static constexpr const char* kNames[] = {"AABB", "ABAB", "ABBA", "random"};
  return kNames[static_cast<size_t>(order)];
}

std::vector<double> log_times(Noise noise, size_t runs, Random& random) {
  std::normal_distribution<double> normal;
  std::student_t_distribution<double> heavy(3);
  std::bernoulli_distribution outlier(0.1), switches(0.1), coin;
  std::vector<double> times(runs);
  double state = noise == Noise::sticky_clock ? (coin(random) ? 1 : -1) : normal(random);
  for (size_t i = 0; i < runs; ++i) {
    switch (noise) {
      case Noise::independent: times[i] = normal(random); break;
      case Noise::linear_drift:
        times[i] = kDriftPerRun * static_cast<double>(i) + normal(random);
        break;
      case Noise::ar1:
        state = 0.8 * state + 0.6 * normal(random);  // 0.8² + 0.6² = 1: unit variance throughout
        times[i] = state;
        break;
      case Noise::heavy_tail: times[i] = heavy(random); break;
      case Noise::outliers: times[i] = (outlier(random) ? 10 : 1) * normal(random); break;
      case Noise::sticky_clock:
        if (switches(random)) state = -state;
        times[i] = state + 0.5 * normal(random);
        break;
    }
  }
  return times;
}

std::vector<Arm> order_of_runs(Order order, int pairs, Random& random) {
  if (order == Order::abba) return stats::abba_order(pairs);
  std::vector<Arm> arms;
  std::bernoulli_distribution coin;
  for (int i = 0; i < pairs; ++i) {
    if (order == Order::aabb) {
      arms.push_back(Arm::baseline);
      continue;
    }
    const Arm first = order == Order::random && coin(random) ? Arm::candidate : Arm::baseline;
    arms.push_back(first);
    arms.push_back(other(first));
  }
  if (order == Order::aabb) arms.insert(arms.end(), static_cast<size_t>(pairs), Arm::candidate);
  return arms;
}

Arms run(Noise noise, Order order, int pairs, double effect, Random& random) {
  const auto arms = order_of_runs(order, pairs, random);
  const auto times = log_times(noise, arms.size(), random);
  Arms result;
  for (size_t i = 0; i < arms.size(); ++i) {
    if (arms[i] == Arm::baseline)
      result.baseline.push_back(times[i]);
    else
      result.candidate.push_back(times[i] + effect);
  }
  return result;
}

std::vector<double> differences(const Arms& arms) {
  std::vector<double> d(arms.baseline.size());
  for (size_t i = 0; i < d.size(); ++i) d[i] = arms.candidate[i] - arms.baseline[i];
  return d;
}

std::vector<double> normal_pairs(int pairs, double effect, double sd, Random& random) {
  std::normal_distribution<double> normal(effect, sd);
  std::vector<double> d(static_cast<size_t>(pairs));
  for (double& x : d) x = normal(random);
  return d;
}

double rate(int repeats, const std::function<bool()>& happens) {
  int count = 0;
  for (int i = 0; i < repeats; ++i) count += happens();
  return static_cast<double>(count) / repeats;
}

bool calls_a_difference(std::span<const double> pairs, const stats::AbRule& rule) {
  const auto decision = stats::decide_pairs(pairs, rule).decision;
  return decision == stats::AbDecision::faster || decision == stats::AbDecision::slower;
}

bool looks_with(std::span<const double> pairs, const Spread& sd, const std::array<double, 4>& critical) {
  for (size_t i = 0; i < critical.size(); ++i) {
    const auto seen = pairs.first(static_cast<size_t>(stats::kLooks[i]));
    const double standard_error = sd(seen) / std::sqrt(static_cast<double>(seen.size()));
    if (std::fabs(stats::mean(seen)) > critical[i] * standard_error) return true;
  }
  return false;
}

}  // namespace kl::simulation
