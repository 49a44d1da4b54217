// The ceiling: a kernel that only reads some arrays and writes one, 16 bytes at a time.
#include <cuda_runtime.h>
#include <stddef.h>

namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

template <int reads, bool writes>
__global__ void pass(const uint4* a, const uint4* b, uint4* out, size_t count) {
  uint4 first[kPerThread] = {}, second[kPerThread] = {};
  const size_t start = size_t{blockIdx.x} * kThreads * kPerThread + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const size_t at = start + i * kThreads;
    if (at >= count) break;
    first[i] = __ldcs(a + at);
    if (reads == 2) second[i] = __ldcs(b + at);
  }
  unsigned mixed = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const size_t at = start + i * kThreads;
    if (at >= count) break;
    const uint4 v = {first[i].x ^ second[i].x, first[i].y ^ second[i].y, first[i].z ^ second[i].z,
                     first[i].w ^ second[i].w};
    if (writes) __stcs(out + at, v);
    mixed |= v.x | v.y | v.z | v.w;
  }
  if (!writes && mixed == 0x9e3779b9u) *out = first[0];  // so that the reads are not left out
}

}  // namespace

// Bytes of each array; `b` NULL: one array is read; `writes` 0: none is written.
extern "C" __attribute__((visibility("default"))) int stream_pass(const void* a, const void* b,
                                                                  void* out, int writes,
                                                                  size_t bytes, void* on) {
  const size_t count = bytes / sizeof(uint4);
  const unsigned blocks =
      static_cast<unsigned>((count + kThreads * kPerThread - 1) / (kThreads * kPerThread));
  const auto kernel = b != nullptr ? (writes ? pass<2, true> : pass<2, false>)
                                   : (writes ? pass<1, true> : pass<1, false>);
  kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(on)>>>(
      static_cast<const uint4*>(a), static_cast<const uint4*>(b), static_cast<uint4*>(out), count);
  return static_cast<int>(cudaGetLastError());
}
