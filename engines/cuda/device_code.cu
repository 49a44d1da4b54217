// The lab's own device code: gate, contents, checks, flush and probes. Loaded by device_code.hpp
// through the driver; every entry is extern "C" so that its name is what is written here.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace {

__device__ __forceinline__ uint64_t device_time_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ uint64_t first_index() {
  return blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
}
__device__ __forceinline__ uint64_t index_step() {
  return gridDim.x * static_cast<uint64_t>(blockDim.x);
}

template <class T, class F>
__device__ void drawn(T* to, const T* pool, uint64_t n, uint64_t rotation, F&& product) {
  for (uint64_t i = first_index(); i < n; i += index_step()) {
    const uint64_t from = i + rotation;
    to[i] = product(pool[from < n ? from : from - n]);
  }
}

// Differing elements, and the lowest of them.
template <class T, class F>
__device__ void differs(const T* got, const T* pool, uint64_t n, uint64_t rotation,
                        unsigned long long* result, F&& product) {
  for (uint64_t i = first_index(); i < n; i += index_step()) {
    const uint64_t from = i + rotation;
    if (got[i] == product(pool[from < n ? from : from - n])) continue;
    atomicAdd(result, 1ull);
    atomicMin(result + 1, static_cast<unsigned long long>(i));
  }
}

// Bits in, bits out, as the host does it: a NaN becomes quiet and keeps its payload.
__device__ uint16_t scaled_bf16(uint16_t v, float factor) {
  if ((v & 0x7FFFu) > 0x7F80u) return v | 0x40u;
  const uint32_t bits = __float_as_uint(__fmul_rn(__uint_as_float(static_cast<uint32_t>(v) << 16), factor));
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
__device__ uint16_t scaled_f16(uint16_t v, float factor) {
  if ((v & 0x7FFFu) > 0x7C00u) return v | 0x200u;
  return __half_as_ushort(__float2half_rn(__fmul_rn(__half2float(__ushort_as_half(v)), factor)));
}
__device__ uint32_t scaled_f32(uint32_t v, float factor) {
  if ((v & 0x7FFFFFFFu) > 0x7F800000u) return v | 0x400000u;
  return __float_as_uint(__fmul_rn(__uint_as_float(v), factor));
}
__device__ uint64_t scaled_f64(uint64_t v, double factor) {
  if ((v & 0x7FFFFFFFFFFFFFFFull) > 0x7FF0000000000000ull) return v | 0x8000000000000ull;
  return __double_as_longlong(__dmul_rn(__longlong_as_double(v), factor));
}

template <int kReads, int kWrites>
__device__ void copied(const float4* const* in, float4* const* out, uint64_t n, float4* sink) {
  float4 kept = {0, 0, 0, 0};
  for (uint64_t i = first_index(); i < n; i += index_step()) {
    float4 v[kReads];
#pragma unroll
    for (int r = 0; r < kReads; ++r) v[r] = in[r][i];
#pragma unroll
    for (int r = 1; r < kReads; ++r) {
      v[0].x += v[r].x;
      v[0].y += v[r].y;
      v[0].z += v[r].z;
      v[0].w += v[r].w;
    }
#pragma unroll
    for (int w = 0; w < kWrites; ++w) out[w][i] = v[0];
    if (kWrites == 0) {
      kept.x += v[0].x;
      kept.y += v[0].y;
      kept.z += v[0].z;
      kept.w += v[0].w;
    }
  }
  // Never true for what the probes write; keeps the reads.
  if (kWrites == 0 && kept.x + kept.y + kept.z + kept.w == 12345.678f) *sink = kept;
}

struct Streams {
  const float4* in[4];
  float4* out[4];
};

}  // namespace

extern "C" {

// Holds its stream until the host opens it, or says that it waited too long.
__global__ void kl_gate(volatile const uint32_t* open, volatile uint32_t* timed_out, uint32_t ticket,
                        uint64_t timeout_ns) {
  const uint64_t begin = device_time_ns();
  while (*open != ticket) {
    if (device_time_ns() - begin > timeout_ns) {
      *timed_out = ticket;
      break;
    }
  }
  __threadfence_system();
}

__global__ void kl_empty() {}

// Busy for so long by the device's own timer.
__global__ void kl_spin(uint64_t ns) {
  const uint64_t begin = device_time_ns();
  while (device_time_ns() - begin < ns) {
  }
}

// Smallest step of the device's timer seen in so many readings.
__global__ void kl_timer_step(uint64_t* smallest, uint32_t readings) {
  uint64_t least = ~0ull, last = device_time_ns();
  for (uint32_t i = 0; i < readings; ++i) {
    const uint64_t now = device_time_ns();
    if (now != last && now - last < least) least = now - last;
    last = now;
  }
  *smallest = least;
}

// Elements of random sign and fraction: `base` has their exponents, `mask` the bits that are drawn.
__global__ void kl_noise(uint32_t* to, uint64_t words, uint32_t base, uint32_t mask) {
  for (uint64_t i = first_index(); i < words; i += index_step()) {
    uint64_t h = (i + 1) * 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 31)) * 0xBF58476D1CE4E5B9u;
    to[i] = base | (static_cast<uint32_t>(h >> 32) & mask);
  }
}

// `unit` is eight bytes of a repeated pattern, beginning at byte 0.
__global__ void kl_fill(uint8_t* to, uint64_t bytes, uint64_t unit) {
  uint64_t* words = reinterpret_cast<uint64_t*>(to);
  for (uint64_t i = first_index(); i < bytes / 8; i += index_step()) words[i] = unit;
  if (first_index() == 0)
    for (uint64_t i = bytes / 8 * 8; i < bytes; ++i) to[i] = static_cast<uint8_t>(unit >> (8 * (i % 8)));
}

__global__ void kl_draw_bf16(uint16_t* to, const uint16_t* pool, uint64_t n, uint64_t rotation, double factor) {
  const float f = static_cast<float>(factor);
  drawn(to, pool, n, rotation, [f](uint16_t v) { return scaled_bf16(v, f); });
}
__global__ void kl_draw_f16(uint16_t* to, const uint16_t* pool, uint64_t n, uint64_t rotation, double factor) {
  const float f = static_cast<float>(factor);
  drawn(to, pool, n, rotation, [f](uint16_t v) { return scaled_f16(v, f); });
}
__global__ void kl_draw_f32(uint32_t* to, const uint32_t* pool, uint64_t n, uint64_t rotation, double factor) {
  const float f = static_cast<float>(factor);
  drawn(to, pool, n, rotation, [f](uint32_t v) { return scaled_f32(v, f); });
}
__global__ void kl_draw_f64(uint64_t* to, const uint64_t* pool, uint64_t n, uint64_t rotation, double factor) {
  drawn(to, pool, n, rotation, [factor](uint64_t v) { return scaled_f64(v, factor); });
}
__global__ void kl_move_8(uint8_t* to, const uint8_t* pool, uint64_t n, uint64_t rotation, double) {
  drawn(to, pool, n, rotation, [](uint8_t v) { return v; });
}
__global__ void kl_move_16(uint16_t* to, const uint16_t* pool, uint64_t n, uint64_t rotation, double) {
  drawn(to, pool, n, rotation, [](uint16_t v) { return v; });
}
__global__ void kl_move_32(uint32_t* to, const uint32_t* pool, uint64_t n, uint64_t rotation, double) {
  drawn(to, pool, n, rotation, [](uint32_t v) { return v; });
}
__global__ void kl_move_64(uint64_t* to, const uint64_t* pool, uint64_t n, uint64_t rotation, double) {
  drawn(to, pool, n, rotation, [](uint64_t v) { return v; });
}

__global__ void kl_differs_bf16(const uint16_t* got, const uint16_t* pool, uint64_t n, uint64_t rotation,
                                double factor, unsigned long long* result) {
  const float f = static_cast<float>(factor);
  differs(got, pool, n, rotation, result, [f](uint16_t v) { return scaled_bf16(v, f); });
}
__global__ void kl_differs_f16(const uint16_t* got, const uint16_t* pool, uint64_t n, uint64_t rotation,
                               double factor, unsigned long long* result) {
  const float f = static_cast<float>(factor);
  differs(got, pool, n, rotation, result, [f](uint16_t v) { return scaled_f16(v, f); });
}
__global__ void kl_differs_f32(const uint32_t* got, const uint32_t* pool, uint64_t n, uint64_t rotation,
                               double factor, unsigned long long* result) {
  const float f = static_cast<float>(factor);
  differs(got, pool, n, rotation, result, [f](uint32_t v) { return scaled_f32(v, f); });
}
__global__ void kl_differs_f64(const uint64_t* got, const uint64_t* pool, uint64_t n, uint64_t rotation,
                               double factor, unsigned long long* result) {
  differs(got, pool, n, rotation, result, [factor](uint64_t v) { return scaled_f64(v, factor); });
}
__global__ void kl_differs_8(const uint8_t* got, const uint8_t* pool, uint64_t n, uint64_t rotation, double,
                             unsigned long long* result) {
  differs(got, pool, n, rotation, result, [](uint8_t v) { return v; });
}
__global__ void kl_differs_16(const uint16_t* got, const uint16_t* pool, uint64_t n, uint64_t rotation, double,
                              unsigned long long* result) {
  differs(got, pool, n, rotation, result, [](uint16_t v) { return v; });
}
__global__ void kl_differs_32(const uint32_t* got, const uint32_t* pool, uint64_t n, uint64_t rotation, double,
                              unsigned long long* result) {
  differs(got, pool, n, rotation, result, [](uint32_t v) { return v; });
}
__global__ void kl_differs_64(const uint64_t* got, const uint64_t* pool, uint64_t n, uint64_t rotation, double,
                              unsigned long long* result) {
  differs(got, pool, n, rotation, result, [](uint64_t v) { return v; });
}

// Bytes of a guard zone that are not the canary, and the lowest of them.
__global__ void kl_zone(const uint8_t* zone, uint64_t bytes, uint32_t canary, unsigned long long* result) {
  for (uint64_t i = first_index(); i < bytes; i += index_step()) {
    if (zone[i] == canary) continue;
    atomicAdd(result, 1ull);
    atomicMin(result + 1, static_cast<unsigned long long>(i));
  }
}

__global__ void kl_copy_1_2(Streams s, uint64_t n, float4* sink) { copied<1, 2>(s.in, s.out, n, sink); }
__global__ void kl_copy_1_1(Streams s, uint64_t n, float4* sink) { copied<1, 1>(s.in, s.out, n, sink); }
__global__ void kl_copy_2_1(Streams s, uint64_t n, float4* sink) { copied<2, 1>(s.in, s.out, n, sink); }
__global__ void kl_copy_4_1(Streams s, uint64_t n, float4* sink) { copied<4, 1>(s.in, s.out, n, sink); }
__global__ void kl_copy_1_0(Streams s, uint64_t n, float4* sink) { copied<1, 0>(s.in, s.out, n, sink); }

// Reads the same elements many times over; each pass is rotated, so that no multiprocessor meets its own.
__global__ void kl_reread(const float4* from, uint64_t n, uint32_t passes, float4* sink) {
  float kept = 0;
  for (uint32_t pass = 0; pass < passes; ++pass) {
    const uint64_t rotation = n / passes * pass;
    for (uint64_t i = first_index(); i < n; i += index_step()) {
      const uint64_t at = i + rotation;
      const float4 v = __ldcg(from + (at < n ? at : at - n));
      kept += v.x + v.y + v.z + v.w;
    }
  }
  if (kept == 12345.678f) *sink = {kept, kept, kept, kept};
}

}  // extern "C"
