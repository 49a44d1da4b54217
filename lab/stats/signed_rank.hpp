// The exact signed-rank test and the interval it inverts to (Wilcoxon 1945; Tukey's Walsh averages,
// Hollander, Wolfe & Chicken, "Nonparametric Statistical Methods", sections 3.1 to 3.3).
#pragma once

#include <lab/stats/interval.hpp>

#include <span>
#include <vector>

namespace kl::stats {

// P(W+ = w) for w = 0 … n(n+1)/2 when every sign is a fair coin: subset sums of 1 … n.
std::vector<double> signed_rank_distribution(size_t n);

// Exact two-sided p of "the differences are symmetric about 0". Zeros are dropped; ties share their
// rank, and the distribution is the exact one given those ranks. 1 when nothing is left.
double signed_rank_p(std::span<const double> differences);

// All (d_i + d_j) / 2 with i <= j, sorted.
std::vector<double> walsh_averages(std::span<const double> differences);

// The Hodges–Lehmann estimate and the exact interval between two order statistics of the Walsh
// averages; coverage at least `confidence`. The whole line when n is too small for it (n < 6 at 95 %).
Interval walsh_interval(std::span<const double> differences, double confidence);

}  // namespace kl::stats
