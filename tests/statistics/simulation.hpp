// Synthetic comparisons: noise of a known kind, runs in a known order, verdicts counted.
#pragma once

#include <lab/stats/ab_look.hpp>
#include <lab/stats/order.hpp>

#include <array>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace kl::simulation {

using Random = std::mt19937_64;
using stats::Arm;

enum class Noise { independent, linear_drift, ar1, heavy_tail, outliers, sticky_clock };
enum class Order { aabb, abab, abba, random };

inline constexpr Noise kAllNoise[] = {Noise::independent, Noise::linear_drift, Noise::ar1,
                                      Noise::heavy_tail,  Noise::outliers,     Noise::sticky_clock};
inline constexpr Order kAllOrders[] = {Order::aabb, Order::abab, Order::abba, Order::random};

std::string name(Noise noise);
std::string name(Order order);

// Log times of `runs` successive runs of one and the same program; unit scale.
std::vector<double> log_times(Noise noise, size_t runs, Random& random);

// AABB: all of A, then all of B. ABBA is the lab's own order. random: a coin per pair.
std::vector<Arm> order_of_runs(Order order, int pairs, Random& random);

struct Arms {
  std::vector<double> baseline;
  std::vector<double> candidate;
};
// The i-th run of A and the i-th of B in the given order; B's log times are shifted by `effect`.
Arms run(Noise noise, Order order, int pairs, double effect, Random& random);

std::vector<double> differences(const Arms& arms);

// Independent normal pairs, as measured: mean `effect`, standard deviation `sd`.
std::vector<double> normal_pairs(int pairs, double effect, double sd, Random& random);

// Share of `repeats` calls that return true.
double rate(int repeats, const std::function<bool()>& happens);

// Rule 2 with nothing but its looks: δ = 0, no noise stop, futility (non-binding) ignored.
inline constexpr stats::AbRule kBareLooks{.delta = 0, .aa_sd = 0, .stop_when_futile = false};
bool calls_a_difference(std::span<const double> pairs, const stats::AbRule& rule = kBareLooks);

// The same looks written a second time, plainly, with the SD and the critical values left open; the
// mutations change those, and a test holds it equal to the rule otherwise. Quick enough for many runs.
using Spread = std::function<double(std::span<const double>)>;
bool looks_with(std::span<const double> pairs, const Spread& sd, const std::array<double, 4>& critical);

}  // namespace kl::simulation
