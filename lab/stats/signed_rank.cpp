#include <lab/stats/signed_rank.hpp>

#include <lab/stats/quantile.hpp>

#include <algorithm>
#include <cmath>

namespace kl::stats {

namespace {

// Distribution of the sum of those ranks whose coin shows plus.
std::vector<double> subset_sums(std::span<const size_t> ranks) {
  size_t reach = 0;
  for (const size_t rank : ranks) reach += rank;
  std::vector<double> chance(reach + 1, 0);
  chance[0] = 1;
  size_t top = 0;
  for (const size_t rank : ranks) {
    top += rank;
    for (size_t w = top + 1; w-- > 0;)
      chance[w] = (chance[w] + (w >= rank ? chance[w - rank] : 0)) / 2;
  }
  return chance;
}

}  // namespace

std::vector<double> signed_rank_distribution(size_t n) {
  std::vector<size_t> ranks(n);
  for (size_t i = 0; i < n; ++i) ranks[i] = i + 1;
  return subset_sums(ranks);
}

double signed_rank_p(std::span<const double> differences) {
  std::vector<double> kept;
  for (const double d : differences)
    if (d != 0) kept.push_back(d);
  std::sort(kept.begin(), kept.end(),
            [](double a, double b) { return std::fabs(a) < std::fabs(b); });
  // Ranks are doubled, so that the mid-rank of a tie is a whole number.
  std::vector<size_t> doubled(kept.size());
  size_t plus = 0, all = 0;
  for (size_t from = 0; from < kept.size();) {
    size_t to = from;
    while (to < kept.size() && std::fabs(kept[to]) == std::fabs(kept[from])) ++to;
    for (size_t i = from; i < to; ++i) {
      doubled[i] = from + 1 + to;
      all += doubled[i];
      if (kept[i] > 0) plus += doubled[i];
    }
    from = to;
  }
  const auto chance = subset_sums(doubled);
  const size_t smaller = std::min(plus, all - plus);
  double tail = 0;
  for (size_t w = 0; w <= smaller; ++w) tail += chance[w];
  return std::min(1.0, 2 * tail);
}

std::vector<double> walsh_averages(std::span<const double> differences) {
  std::vector<double> averages;
  averages.reserve(differences.size() * (differences.size() + 1) / 2);
  for (size_t i = 0; i < differences.size(); ++i)
    for (size_t j = i; j < differences.size(); ++j)
      averages.push_back((differences[i] + differences[j]) / 2);
  std::sort(averages.begin(), averages.end());
  return averages;
}

Interval walsh_interval(std::span<const double> differences, double confidence) {
  const auto averages = walsh_averages(differences);
  Interval interval{.estimate = median(averages), .confidence = confidence};
  const auto chance = signed_rank_distribution(differences.size());
  const double spare = (1 - confidence) / 2;
  // `rank` ends as the largest k with P(W+ < k) <= spare; the ends are its k-th averages.
  size_t rank = 0;
  for (double tail = chance[0]; tail <= spare && rank < averages.size() / 2; tail += chance[rank])
    ++rank;
  if (rank == 0) return interval;
  interval.low = averages[rank - 1];
  interval.high = averages[averages.size() - rank];
  return interval;
}

}  // namespace kl::stats
