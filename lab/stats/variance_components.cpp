#include <lab/stats/variance_components.hpp>

#include <lab/stats/moments.hpp>

#include <algorithm>
#include <cmath>

namespace kl::stats {

namespace {

int repetitions(double upper_cost, double cost, double spread, double upper_spread, int most) {
  if (spread <= 0) return 1;
  if (upper_spread <= 0) return most;
  const double best = std::ceil(std::sqrt((upper_cost / cost) * (spread / upper_spread)));
  return static_cast<int>(std::clamp(best, 1.0, static_cast<double>(most)));
}

bool balanced(std::span<const ProcessBlocks> processes) {
  if (processes.size() < 2 || processes[0].size() < 2 || processes[0][0].size() < 2) return false;
  for (const auto& process : processes) {
    if (process.size() != processes[0].size()) return false;
    for (const auto& block : process)
      if (block.size() != processes[0][0].size()) return false;
  }
  return true;
}

}  // namespace

Result<VarianceComponents> variance_components(std::span<const ProcessBlocks> processes) {
  if (!balanced(processes))
    return make_error(Status::error, "the samples are not balanced, or a level has fewer than two",
                      "give every process as many blocks and every block as many samples, two or more");
  std::vector<double> within_blocks, between_blocks, process_means;
  for (const auto& process : processes) {
    std::vector<double> block_means;
    for (const auto& block : process) {
      within_blocks.push_back(variance(block));
      block_means.push_back(mean(block));
    }
    between_blocks.push_back(variance(block_means));
    process_means.push_back(mean(block_means));
  }
  const double s1 = mean(within_blocks), s2 = mean(between_blocks), s3 = variance(process_means);
  const double samples = static_cast<double>(processes[0][0].size());
  const double blocks = static_cast<double>(processes[0].size());
  return VarianceComponents{
      .sample = s1, .block = std::max(0.0, s2 - s1 / samples), .process = std::max(0.0, s3 - s2 / blocks)};
}

Repetitions best_repetitions(const VarianceComponents& components, const LevelCosts& costs, int most) {
  return {repetitions(costs.block, costs.sample, components.sample, components.block, most),
          repetitions(costs.process, costs.block, components.block, components.process, most)};
}

}  // namespace kl::stats
