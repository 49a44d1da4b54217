// Where the scatter comes from (process, block, sample) and how many repetitions each level earns
// (Kalibera & Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013).
#pragma once

#include <lab/core/record.hpp>

#include <span>
#include <vector>

namespace kl::stats {

using Block = std::vector<double>;        // samples
using ProcessBlocks = std::vector<Block>;

struct VarianceComponents {
  double sample = 0;   // T_1², within a block
  double block = 0;    // T_2², between blocks of a process, clipped at 0
  double process = 0;  // T_3², between processes, clipped at 0

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("sample", self.sample, "variance between samples of a block");
    v("block", self.block, "variance between blocks of a process");
    v("process", self.process, "variance between processes");
  }
};

// T_i² = S_i² − S_{i−1}²/r_{i−1}. Error unless balanced with at least two of every level.
Result<VarianceComponents> variance_components(std::span<const ProcessBlocks> processes);

// What one more of each level costs besides its contents, in any one unit.
struct LevelCosts {
  double sample = 1;
  double block = 1;
  double process = 1;
};
struct Repetitions {
  int samples_per_block = 1;
  int blocks_per_process = 1;
};
// r_i = ceil sqrt((c_{i+1}/c_i)(T_i²/T_{i+1}²)), at least 1; `most` where the upper level does not
// vary, because then repeating it buys nothing.
Repetitions best_repetitions(const VarianceComponents& components, const LevelCosts& costs, int most);

}  // namespace kl::stats
