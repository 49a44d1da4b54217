#include <cache_flush.hpp>

#include <lab/core/cache_size.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace kl {
namespace {

size_t cache_bytes(int name, size_t otherwise) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? static_cast<size_t>(bytes) : otherwise;
}

}  // namespace

CacheFlush::CacheFlush(int64_t bytes, int threads) : threads_(threads) {
  const size_t total = bytes > 0 ? static_cast<size_t>(bytes)
                                 : 2 * static_cast<size_t>(last_level_cache_bytes());
  const size_t own = 2 * cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1u << 20);
  share_ = std::max(total / static_cast<size_t>(threads), own) / sizeof(uint64_t);
}

void CacheFlush::run(CandidateThread& candidate) {
  if (memory_.empty()) memory_.assign(share_ * static_cast<size_t>(threads_), 1);
  std::atomic<uint64_t> sum{0};
  candidate.on_pool([&](int thread) {
    const uint64_t* begin = memory_.data() + share_ * static_cast<size_t>(thread);
    uint64_t part = 0;
    for (size_t i = 0; i < share_; i += 8) part += begin[i];  // one word of every 64-byte line
    sum += part;
  });
  sum_ = sum;  // keeps the reads
}

}  // namespace kl
