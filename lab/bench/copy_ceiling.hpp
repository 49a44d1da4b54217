// Bandwidth probes of the CPU: how fast a footprint can be moved once at a given read:write mix.
#pragma once

#include <lab/bench/calibration.hpp>
#include <lab/core/progress.hpp>

#include <vector>

namespace kl {

struct CopyProbe {
  std::vector<int64_t> footprints_bytes;
  std::vector<double> read_fractions;  // 0 < f <= 1; realised as whole numbers of streams
  int passes = 9;
  int64_t last_level_cache_bytes = 0;  // 0: read from the system
  Progress progress;
};

// Footprints from a corner of L2 to four times the last-level cache; mixes 1:2, 1:1, 2:1, 4:1 and
// read only. `quick` takes fewer of both (about 4 s on two cores, otherwise about 15 s).
CopyProbe copy_probe(bool quick);

// For every footprint, mix and cache state the best median over: one thread or all, ordinary or
// streaming stores. A pass moves every byte of the footprint exactly once.
std::vector<Ceiling> measure_copy_ceilings(const CopyProbe& probe);

// Smallest non-zero difference of two readings of the lab's clock.
int64_t measure_timer_resolution_ns();

}  // namespace kl
