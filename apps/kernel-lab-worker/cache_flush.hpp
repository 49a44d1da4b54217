// Evicts what the caches hold by reading other memory.
#pragma once

#include <candidate_thread.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kl {

class CacheFlush {
 public:
  // 0: twice the last-level cache of this machine.
  CacheFlush(int64_t bytes, int threads);
  void run(CandidateThread& candidate);

 private:
  size_t share_;  // words each thread reads: its part, and at least twice its private cache
  int threads_;
  std::vector<uint64_t> memory_;  // filled at the first flush
  uint64_t sum_ = 0;
};

}  // namespace kl
