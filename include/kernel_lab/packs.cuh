// For authors of CUDA kernels: 16 bytes of a row at a time, or one element where rows do not lie
// so, as floats, and sums over a warp or a block whose order never changes. f32 and bf16;
// everything is computed in float.
#pragma once

#include <kernel_lab/kernel.hpp>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <initializer_list>

namespace kl {

using bf16 = __nv_bfloat16;

inline constexpr int kWarp = 32;
inline constexpr int kPackBytes = 16;
template <class T>
inline constexpr int kPackSize = kPackBytes / static_cast<int>(sizeof(T));

// Consecutive elements of a row, as they lie in memory.
template <class T>
struct alignas(kPackBytes) RawPack {
  uint4 bits;
};
// The same as numbers; or one element, which in memory is a T.
template <class T, int width = kPackSize<T>>
struct Pack {
  float v[width];
};

__device__ inline Pack<float> unpack(RawPack<float> raw) {
  return {{__uint_as_float(raw.bits.x), __uint_as_float(raw.bits.y), __uint_as_float(raw.bits.z),
           __uint_as_float(raw.bits.w)}};
}
// A bf16 is the upper half of a float.
__device__ inline Pack<bf16> unpack(RawPack<bf16> raw) {
  const uint32_t words[4] = {raw.bits.x, raw.bits.y, raw.bits.z, raw.bits.w};
  Pack<bf16> pack;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pack.v[2 * i] = __uint_as_float(words[i] << 16);
    pack.v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
  return pack;
}

template <class T>
__device__ Pack<T, 1> unpack(T one) {
  return {{static_cast<float>(one)}};
}

__device__ inline RawPack<float> packed(const Pack<float>& p) {
  return {{__float_as_uint(p.v[0]), __float_as_uint(p.v[1]), __float_as_uint(p.v[2]),
           __float_as_uint(p.v[3])}};
}
__device__ inline RawPack<bf16> packed(const Pack<bf16>& p) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(p.v[2 * i], p.v[2 * i + 1]);
    words[i] = *reinterpret_cast<const uint32_t*>(&pair);
  }
  return {{words[0], words[1], words[2], words[3]}};
}

// Of 16-byte aligned memory.
template <class T>
__device__ RawPack<T> load_pack(const T* from) {
  return {*reinterpret_cast<const uint4*>(from)};
}
template <class T>
__device__ void store_pack(T* to, const Pack<T>& pack) {
  *reinterpret_cast<uint4*>(to) = packed(pack).bits;
}
template <class T>
__device__ void store_pack(T* to, const Pack<T, 1>& one) {
  *to = static_cast<T>(one.v[0]);
}
// A pack, or one element at any address: `width` is kPackSize<T> or 1.
template <int width, class T>
__device__ auto load(const T* from) {
  if constexpr (width == 1)
    return *from;
  else
    return load_pack(from);
}
// Evicted from the caches first: faster in a pass that only reads, slower beside stores.
template <class T>
__device__ RawPack<T> stream_in(const T* from) {
  return {__ldcs(reinterpret_cast<const uint4*>(from))};
}

// The first `count` elements at any alignment; the rest of the pack is 0 and stays unwritten.
template <class T>
__device__ Pack<T> load_some(const T* from, int64_t count) {
  Pack<T> pack;
#pragma unroll
  for (int i = 0; i < kPackSize<T>; ++i) pack.v[i] = i < count ? static_cast<float>(from[i]) : 0.0f;
  return pack;
}
template <class T>
__device__ void store_some(T* to, const Pack<T>& pack, int64_t count) {
#pragma unroll
  for (int i = 0; i < kPackSize<T>; ++i)
    if (i < count) to[i] = static_cast<T>(pack.v[i]);
}

// Is it packed, of this shape, and of the type that the caller looked at?
inline bool is_packed(const DLTensor& t, bool right_type, std::initializer_list<int64_t> shape) {
  return right_type && is_contiguous(t) &&
         std::equal(t.shape, t.shape + t.ndim, shape.begin(), shape.end());
}
inline bool is_pack_aligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % kPackBytes == 0;
}

// Every lane gets the same bits.
template <class V>
__device__ V warp_sum(V value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// Over a block of whole warps; every thread gets the same bits. All threads must call it.
template <class V>
__device__ V block_sum(V value) {
  __shared__ V parts[kWarp];
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  V sum = 0;
  for (unsigned i = 0; i < blockDim.x / kWarp; ++i) sum += parts[i];
  __syncthreads();
  return sum;
}
__device__ inline float block_max(float value) {
  __shared__ float parts[kWarp];
  value = warp_max(value);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  for (unsigned i = 0; i < blockDim.x / kWarp; ++i) value = fmaxf(value, parts[i]);
  __syncthreads();
  return value;
}

// Multiprocessors of the current device, for `prepare`; 0 where it cannot be asked.
inline int multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 0;
  return count;
}

// Of the launch just made on this thread; the text is CUDA's and static.
inline kl_result launch_status() {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? ok() : launch_failed(cudaGetErrorString(status));
}

}  // namespace kl
