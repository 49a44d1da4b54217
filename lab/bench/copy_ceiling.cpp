#include <lab/bench/copy_ceiling.hpp>

#include <lab/core/cache_size.hpp>
#include <lab/core/clock.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include <omp.h>
#if defined(__x86_64__)
#include <immintrin.h>
#define KL_EVERY_WIDTH __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define KL_EVERY_WIDTH
#endif

namespace kl {
namespace {

constexpr int64_t kChunkFloats = 1024;  // 4 KiB: streams interleave, as they do in a kernel

struct Mix {
  int reads = 1;
  int writes = 1;
};

// Small whole numbers of read and write streams closest to the fraction.
Mix mix_of(double read_fraction) {
  Mix best;
  double error = std::numeric_limits<double>::infinity();
  for (int total = 1; total <= 5; ++total)
    for (int reads = 1; reads <= total; ++reads) {
      const double e = std::fabs(static_cast<double>(reads) / total - read_fraction);
      if (e < error - 1e-9) error = e, best = {reads, total - reads};
    }
  return best;
}

struct FreeDeleter {
  void operator()(float* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float[], FreeDeleter>;

Floats allocate(int64_t count) {
  const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + 4095) / 4096 * 4096;
  void* memory = std::aligned_alloc(4096, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return Floats(static_cast<float*>(memory));
}

KL_EVERY_WIDTH float sum_chunk(const float* in, int64_t n) {
  float lanes[64] = {};
  for (int64_t i = 0; i + 64 <= n; i += 64)
    for (int k = 0; k < 64; ++k) lanes[k] += in[i + k];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

KL_EVERY_WIDTH void add_chunk(const float* in, float* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += in[i];
}

KL_EVERY_WIDTH void copy_chunk(const float* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[i];
}

void stream_chunk(const float* in, float* out, int64_t n) {
#if defined(__x86_64__)
  for (int64_t i = 0; i < n; i += 4) _mm_stream_ps(out + i, _mm_load_ps(in + i));
#else
  copy_chunk(in, out, n);
#endif
}

// Streams of equal length: the first `reads` are read, the others written.
class Streams {
 public:
  Streams(Mix mix, int64_t footprint_bytes) : mix_(mix) {
    const int64_t floats = footprint_bytes / static_cast<int64_t>(sizeof(float));
    const int64_t each = floats / (mix.reads + mix.writes) / kChunkFloats;
    length_ = std::max<int64_t>(each, 1) * kChunkFloats;
    for (int s = 0; s < mix.reads + mix.writes; ++s) {
      streams_.push_back(allocate(length_));
      std::fill_n(streams_.back().get(), length_, 1.0f);
    }
  }

  int64_t bytes() const {
    return length_ * static_cast<int64_t>(sizeof(float) * streams_.size());
  }

  void pass(int threads, bool streaming) {
    float checksum = 0;
    const int64_t chunks = length_ / kChunkFloats;
#pragma omp parallel num_threads(threads) reduction(+ : checksum)
    {
      alignas(64) float sum[kChunkFloats];
#pragma omp for schedule(static)
      for (int64_t c = 0; c < chunks; ++c) checksum += move(c * kChunkFloats, streaming, sum);
#if defined(__x86_64__)
      if (streaming) _mm_sfence();
#endif
    }
    kept_ = checksum;  // a read-only pass must not be optimised away
  }

 private:
  float move(int64_t at, bool streaming, float* sum) {
    if (mix_.writes == 0) {
      float total = 0;
      for (const Floats& s : streams_) total += sum_chunk(s.get() + at, kChunkFloats);
      return total;
    }
    const float* from = streams_[0].get() + at;
    if (mix_.reads > 1) {
      copy_chunk(from, sum, kChunkFloats);
      for (int r = 1; r < mix_.reads; ++r)
        add_chunk(streams_[static_cast<size_t>(r)].get() + at, sum, kChunkFloats);
      from = sum;
    }
    for (size_t w = static_cast<size_t>(mix_.reads); w < streams_.size(); ++w) {
      float* to = streams_[w].get() + at;
      streaming ? stream_chunk(from, to, kChunkFloats) : copy_chunk(from, to, kChunkFloats);
    }
    return from[0];
  }

  Mix mix_;
  int64_t length_ = 0;
  std::vector<Floats> streams_;
  volatile float kept_ = 0;
};

class CacheFlush {
 public:
  explicit CacheFlush(int64_t bytes)
      : count_(bytes / static_cast<int64_t>(sizeof(float))), memory_(allocate(count_)) {}
  void operator()() {
    float* p = memory_.get();
    ++value_;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count_; i += 16) p[i] = value_;
  }

 private:
  int64_t count_;
  Floats memory_;
  float value_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

double median_pass_seconds(Streams& streams, int threads, bool streaming, CacheFlush* flush,
                           int passes) {
  std::vector<double> seconds;
  streams.pass(threads, streaming);
  for (int i = 0; i < passes; ++i) {
    if (flush != nullptr) (*flush)();
    const int64_t start = monotonic_ns();
    streams.pass(threads, streaming);
    seconds.push_back(static_cast<double>(std::max<int64_t>(monotonic_ns() - start, 1)) * 1e-9);
  }
  return median(seconds);
}

Ceiling best_of(Streams& streams, Mix mix, CacheFlush* flush, int passes) {
  Ceiling best;
  best.footprint_bytes = streams.bytes();
  best.read_fraction = static_cast<double>(mix.reads) / (mix.reads + mix.writes);
  best.cold = flush != nullptr;
  const int all = omp_get_max_threads();
  for (const int threads : all == 1 ? std::vector<int>{1} : std::vector<int>{1, all})
    for (const bool streaming : {false, true}) {
      if (streaming && mix.writes == 0) continue;
      const double seconds = median_pass_seconds(streams, threads, streaming, flush, passes);
      const double rate = static_cast<double>(best.footprint_bytes) / seconds * 1e-9;
      if (rate <= best.gb_per_s) continue;
      best.gb_per_s = rate;
      best.method = std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
                    (streaming ? "streaming stores" : "ordinary stores");
    }
  return best;
}

}  // namespace

CopyProbe copy_probe(bool quick) {
  CopyProbe probe;
  const int64_t llc = last_level_cache_bytes();
  probe.last_level_cache_bytes = llc;
  probe.passes = quick ? 7 : 15;
  for (int64_t bytes = int64_t{1} << 18; bytes < llc; bytes *= 4)
    probe.footprints_bytes.push_back(bytes);
  if (!quick) probe.footprints_bytes.insert(probe.footprints_bytes.begin(), int64_t{1} << 16);
  probe.footprints_bytes.push_back(2 * llc);
  if (!quick) probe.footprints_bytes.push_back(4 * llc);
  probe.read_fractions = quick ? std::vector<double>{0.5, 2.0 / 3, 1.0}
                               : std::vector<double>{1.0 / 3, 0.5, 2.0 / 3, 0.8, 1.0};
  return probe;
}

std::vector<Ceiling> measure_copy_ceilings(const CopyProbe& probe) {
  const int64_t llc =
      probe.last_level_cache_bytes > 0 ? probe.last_level_cache_bytes : last_level_cache_bytes();
  CacheFlush flush(2 * llc);
  std::vector<Ceiling> ceilings;
  const double total =
      static_cast<double>(probe.footprints_bytes.size() * probe.read_fractions.size());
  for (const int64_t footprint : probe.footprints_bytes)
    for (const double fraction : probe.read_fractions) {
      const Mix mix = mix_of(fraction);
      Streams streams(mix, footprint);
      ceilings.push_back(best_of(streams, mix, &flush, probe.passes));
      ceilings.push_back(best_of(streams, mix, nullptr, probe.passes));
      report(probe.progress, {static_cast<double>(ceilings.size()) / 2, total, "points",
                              "copy bandwidth by footprint and mix"});
    }
  return ceilings;
}

int64_t measure_timer_resolution_ns() {
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 10'000; ++i) {
    const int64_t start = monotonic_ns();
    int64_t now = start;
    while (now == start) now = monotonic_ns();
    smallest = std::min(smallest, now - start);
  }
  return smallest;
}

}  // namespace kl
