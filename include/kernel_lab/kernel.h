/* The kernel ABI: what one kernel library exports and how it is called.
 *
 * Plain C, so that C++, CUDA, Triton cubins, PyTorch (ctypes) and MLX can all speak it.
 * Version 1 is frozen: docs/kernel-abi.md says what each field means, why, and how it may grow.
 *
 * A library exports exactly one symbol, `kl_kernel`, a constant `kl_kernel_table`.
 * Forward and backward of one seam always come from the same library.
 */
#ifndef KERNEL_LAB_KERNEL_H
#define KERNEL_LAB_KERNEL_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KL_ABI_VERSION 1u
#define KL_PLAN_BYTES 256

/* Index of an operation in its target's spec.toml; every target with gradients uses these two. */
enum { KL_FORWARD = 0, KL_BACKWARD = 1 };

enum {
  KL_OK = 0,
  KL_UNSUPPORTED = 1,  /* outside the kernel's domain: the champion runs instead */
  KL_BAD_ARGUMENT = 2, /* the caller broke the contract */
  KL_LAUNCH_FAILED = 3,
  KL_INTERNAL = 4
};

/* Errors are returned, never thrown and never `exit`. `text` is static or NULL. */
typedef struct kl_result {
  int32_t code;
  const char* text;
} kl_result;

/* What a call will look like, without data: `inputs[i].data` and `outputs[i].data` are NULL.
 * Order of inputs, outputs and scalars is that of spec.toml. An absent optional input has
 * ndim 0 and NULL data, here and in the call. */
typedef struct kl_problem {
  int32_t operation;
  int32_t input_count;
  int32_t output_count;
  int32_t scalar_count;
  const DLTensor* inputs;
  const DLTensor* outputs;
  const double* scalars;
  int32_t threads; /* CPU threads the kernel may use; 0 on devices */
  int32_t reserved; /* 0 */
} kl_problem;

/* Host memory lent to a prepared call for as long as it may run; `prepare` writes what `run`
 * needs (tile sizes, strides). Opaque to everyone else. */
typedef struct kl_plan {
  uint64_t words[KL_PLAN_BYTES / 8];
} kl_plan;

/* What the spec permits a kernel to borrow. A service the spec does not list is a stub that
 * returns KL_UNSUPPORTED; the pointers themselves are never NULL. */
typedef struct kl_services {
  uint32_t struct_bytes;
  uint32_t reserved;
  /* Row-major C[m,n] = alpha*op(A)[m,k]*op(B)[k,n] + beta*C, fp32; trans is 'N' or 'T'. */
  kl_result (*sgemm)(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                     const float* a, int64_t lda, const float* b, int64_t ldb, float beta,
                     float* c, int64_t ldc);
} kl_services;

typedef struct kl_call {
  const DLTensor* inputs; /* read only: writing one is a rejection */
  DLTensor* outputs;      /* `write`: wholly written; `accumulate`: added to; `inout`: updated */
  const double* scalars; /* on the host, read by `run`: a captured graph keeps their values */
  void* saved;   /* saved_bytes, 64-byte aligned: written by forward, read by backward */
  void* scratch; /* scratch_bytes, 64-byte aligned: lent for this call, contents undefined */
} kl_call;

/* A stream of the device (CUstream, which is cudaStream_t), or NULL on the CPU, where `run` returns
 * when the work is done. */
typedef void* kl_stream;

typedef struct kl_kernel_table {
  uint32_t abi_version;  /* KL_ABI_VERSION */
  uint32_t struct_bytes; /* sizeof(kl_kernel_table) */
  const char* target;    /* the target's key */

  /* The kernel's domain. Asked once per seam and shape when a plan is made, never per call. */
  kl_result (*accepts)(const kl_problem* problem);
  /* Bytes of scratch for this operation. */
  size_t (*scratch_bytes)(const kl_problem* problem);
  /* Bytes of the saved blob; asked of the forward problem. 0 if backward needs none. */
  size_t (*saved_bytes)(const kl_problem* problem);
  /* Sees shapes, dtypes and the device, never data. */
  kl_result (*prepare)(const kl_problem* problem, const kl_services* services, kl_plan* plan);
  /* Asynchronous on the stream, capturable into a graph; neither allocates nor synchronises. */
  kl_result (*run)(const kl_plan* plan, const kl_call* call, kl_stream stream);
} kl_kernel_table;

#if defined(__GNUC__)
#define KL_EXPORT __attribute__((visibility("default")))
#else
#define KL_EXPORT
#endif

#ifdef __cplusplus
}
#endif
#endif
