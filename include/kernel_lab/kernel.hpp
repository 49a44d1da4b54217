// Helpers for kernel authors: typed access to the tensors of a call, and the export macro.
// Everything is inline and allocation-free.
#pragma once

#include <kernel_lab/kernel.h>

#include <type_traits>

namespace kl {

inline constexpr kl_result ok() { return {KL_OK, nullptr}; }
inline constexpr kl_result unsupported(const char* why) { return {KL_UNSUPPORTED, why}; }
inline constexpr kl_result bad_argument(const char* why) { return {KL_BAD_ARGUMENT, why}; }
inline constexpr kl_result launch_failed(const char* why) { return {KL_LAUNCH_FAILED, why}; }

inline bool is_f32(const DLTensor& t) {
  return t.dtype.code == kDLFloat && t.dtype.bits == 32 && t.dtype.lanes == 1;
}
inline bool is_bf16(const DLTensor& t) {
  return t.dtype.code == kDLBfloat && t.dtype.bits == 16 && t.dtype.lanes == 1;
}
inline bool is_f64(const DLTensor& t) {
  return t.dtype.code == kDLFloat && t.dtype.bits == 64 && t.dtype.lanes == 1;
}
inline bool is_i32(const DLTensor& t) {
  return t.dtype.code == kDLInt && t.dtype.bits == 32 && t.dtype.lanes == 1;
}

// True if the last axis has stride 1 and every other axis is packed (row-major).
inline bool is_contiguous(const DLTensor& t) {
  if (t.strides == nullptr) return true;
  int64_t expected = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

inline bool is_present(const DLTensor& t) { return t.ndim > 0; }

// Pointer to the first element; T must match the tensor's dtype.
template <class T>
T* data(const DLTensor& t) {
  return reinterpret_cast<T*>(static_cast<char*>(t.data) + t.byte_offset);
}

// Stores a small trivially copyable struct in the plan, and reads it back in run.
template <class P>
void store(kl_plan* plan, const P& value) {
  static_assert(std::is_trivially_copyable_v<P> && sizeof(P) <= KL_PLAN_BYTES);
  *reinterpret_cast<P*>(plan->words) = value;
}
template <class P>
const P& plan_as(const kl_plan* plan) {
  return *reinterpret_cast<const P*>(plan->words);
}

}  // namespace kl

// The one exported symbol. TARGET is the key of the target's spec.toml.
#define KL_EXPORT_KERNEL(TARGET, ACCEPTS, SCRATCH_BYTES, SAVED_BYTES, PREPARE, RUN)              \
  extern "C" KL_EXPORT const kl_kernel_table kl_kernel;                                          \
  extern "C" const kl_kernel_table kl_kernel = {KL_ABI_VERSION, sizeof(kl_kernel_table), TARGET, \
                                                ACCEPTS,        SCRATCH_BYTES,           SAVED_BYTES, \
                                                PREPARE,        RUN}
