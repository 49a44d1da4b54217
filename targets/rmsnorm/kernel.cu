// rmsnorm for Hopper GPUs, f32 and bf16; w and dw are f32. Other arithmetic is in float.
//   row of at most kMaxPacks packs a lane, aligned   one warp a row, the row in registers:
//                                                    read once, written once
//   any other row                                    one block a row, read twice (the second
//                                                    time from a cache), its sums in double
// dw: every block sums its rows into its slot of scratch, a second kernel the slots, in order.
#include <kernel_lab/packs.cuh>

#include <algorithm>
#include <cfloat>
#include <type_traits>

namespace {

using kl::bf16;
using kl::kPackSize;
using kl::kWarp;
using kl::Pack;
using kl::RawPack;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMaxPacks = 8;     // a lane's share of a row
constexpr int kMaxSlots = 512;   // blocks that sum dw
constexpr int kSlotsPerMultiprocessor = 3;

struct Plan {
  int32_t operation;
  bool is_bf16, weighted, whole;  // whole: rows are whole packs
  int32_t slots;                  // blocks of a backward that sums dw
  int64_t rows, columns;
};

bool is_packed(const DLTensor& t, bool bf16_wanted) {
  return (bf16_wanted ? kl::is_bf16(t) : kl::is_f32(t)) && kl::is_contiguous(t);
}
bool is_matrix(const DLTensor& t, bool bf16_wanted, int64_t rows, int64_t columns) {
  return is_packed(t, bf16_wanted) && t.ndim == 2 && t.shape[0] == rows && t.shape[1] == columns;
}
bool is_vector_or_absent(const DLTensor& t, int64_t columns) {
  return !kl::is_present(t) || (is_packed(t, false) && t.ndim == 1 && t.shape[0] == columns);
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD) return kl::unsupported("operation is not rmsnorm's");
  if (p->input_count != (forward ? 2 : 3) || p->output_count != (forward ? 1 : 2) ||
      p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  const DLTensor& first = p->inputs[0];
  if (first.ndim != 2 || first.shape[1] < 1) return kl::bad_argument("x must be [N,C] with C >= 1");
  const int64_t rows = first.shape[0], columns = first.shape[1];
  const bool half = kl::is_bf16(first);
  for (int i = 0; i < (forward ? 1 : 2); ++i)
    if (!is_matrix(p->inputs[i], half, rows, columns))
      return kl::unsupported("x, dy: packed f32 or bf16 [N,C]");
  if (!is_matrix(p->outputs[0], half, rows, columns))
    return kl::unsupported("y, dx: packed [N,C] of x's dtype");
  if (!is_vector_or_absent(p->inputs[forward ? 1 : 2], columns))
    return kl::unsupported("w: packed f32 [C]");
  if (!forward && !is_vector_or_absent(p->outputs[1], columns))
    return kl::unsupported("dw: packed f32 [C]");
  return kl::ok();
}

bool wants_dw(const kl_problem* p) {
  return p->operation == KL_BACKWARD && kl::is_present(p->outputs[1]);
}

size_t scratch_bytes(const kl_problem* p) {
  if (!wants_dw(p)) return 0;
  const int64_t slots = std::clamp<int64_t>(p->inputs[0].shape[0], 1, kMaxSlots);
  return static_cast<size_t>(slots * p->inputs[0].shape[1]) * sizeof(float);
}

size_t saved_bytes(const kl_problem*) { return 0; }  // 1/rms costs less to compute than to read

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int multiprocessors = kl::multiprocessors();
  if (multiprocessors == 0) return kl::unsupported("no CUDA device is current");
  const bool half = kl::is_bf16(p->inputs[0]);
  const int64_t rows = p->inputs[0].shape[0], columns = p->inputs[0].shape[1];
  const bool weighted = kl::is_present(p->inputs[p->operation == KL_FORWARD ? 1 : 2]);
  const int slots = std::min(multiprocessors * kSlotsPerMultiprocessor, kMaxSlots);
  kl::store(plan, Plan{p->operation, half, weighted,
                       columns % (half ? kPackSize<bf16> : kPackSize<float>) == 0,
                       static_cast<int32_t>(std::clamp<int64_t>(rows, 1, slots)), rows, columns});
  return kl::ok();
}

// ---- one row, by its sums ----

// Squares that overflow, or vanish where eps does not hide it, are summed again in double.
__device__ bool in_range(float squares, float eps, int64_t columns) {
  return squares <= FLT_MAX && squares + eps * static_cast<float>(columns) > 1e-30f;
}

template <class T>
__device__ double squares_in_double(const T* x, int64_t columns, int first, int step) {
  double sum = 0;
  for (int64_t c = first; c < columns; c += step) {
    const double v = static_cast<float>(x[c]);
    sum += v * v;
  }
  return sum;
}
template <class T>
__device__ double products_in_double(const T* dy, const T* x, const float* w, int64_t columns,
                                     int first, int step) {
  double sum = 0;
  for (int64_t c = first; c < columns; c += step)
    sum += double{static_cast<float>(dy[c])} * (w != nullptr ? w[c] : 1.0f) *
           static_cast<float>(x[c]);
  return sum;
}

__device__ float inverse_rms(float squares, float eps, int64_t columns) {
  return __frsqrt_rn(squares / static_cast<float>(columns) + eps);
}
__device__ double inverse_rms(double squares, double eps, int64_t columns) {
  return 1.0 / sqrt(squares / static_cast<double>(columns) + eps);
}

// What backward needs to know of a row before it can write it.
struct RowScale {
  float inverse_rms;
  float mean;  // of w * dy * x * inverse_rms
};
__device__ RowScale scale_of(float squares, float products, float eps, int64_t columns) {
  const float r = inverse_rms(squares, eps, columns);
  return {r, products / static_cast<float>(columns) * r};
}
__device__ RowScale scale_of(double squares, double products, double eps, int64_t columns) {
  const double r = inverse_rms(squares, eps, columns);
  return {static_cast<float>(r),
          static_cast<float>(products * r / static_cast<double>(columns))};
}

template <class T>
__device__ Pack<T> weights(const float* w, int64_t column) {
  Pack<T> pack;
#pragma unroll
  for (int i = 0; i < kPackSize<T>; i += 4) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(w + column + i));
    pack.v[i] = four.x, pack.v[i + 1] = four.y, pack.v[i + 2] = four.z, pack.v[i + 3] = four.w;
  }
  return pack;
}

// ---- one warp a row; lane l holds packs l, l + 32, ... ----

template <class T, int packs, bool weighted>
__global__ void __launch_bounds__(kThreads)
    forward_rows(const T* __restrict__ x, const float* __restrict__ w, T* __restrict__ y,
                 int64_t rows, int columns, double eps) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int lane = threadIdx.x % kWarp;
  x += row * columns;
  y += row * columns;
  RawPack<T> raw[packs];
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    const int c = (k * kWarp + lane) * kPackSize<T>;
    raw[k] = c < columns ? kl::load_pack(x + c) : RawPack<T>{};
  }
  float squares = 0;
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    const Pack<T> p = kl::unpack(raw[k]);
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) squares += p.v[i] * p.v[i];
  }
  squares = kl::warp_sum(squares);
  const float r = in_range(squares, static_cast<float>(eps), columns)
                      ? inverse_rms(squares, static_cast<float>(eps), columns)
                      : static_cast<float>(inverse_rms(
                            kl::warp_sum(squares_in_double(x, columns, lane, kWarp)), eps,
                            columns));
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    const int c = (k * kWarp + lane) * kPackSize<T>;
    if (c >= columns) break;
    Pack<T> p = kl::unpack(raw[k]);
    const Pack<T> weight = weighted ? weights<T>(w, c) : Pack<T>{};
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) p.v[i] *= weighted ? r * weight.v[i] : r;
    kl::store_pack(y + c, p);
  }
}

// Adds the sums of a block's warps, in their order, into the block's slot.
template <class T, int packs>
__device__ void store_slot(const Pack<T> (&sums)[packs], float* slot, int columns) {
  __shared__ float total[kMaxPacks * kWarp * kPackSize<T>];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (int turn = 0; turn < kWarps; ++turn) {
    if (turn == warp)
#pragma unroll
      for (int k = 0; k < packs; ++k)
#pragma unroll
        for (int i = 0; i < kPackSize<T>; ++i) {
          float& t = total[(k * kWarp + lane) * kPackSize<T> + i];
          t = turn == 0 ? sums[k].v[i] : t + sums[k].v[i];
        }
    __syncthreads();
  }
  for (int c = threadIdx.x; c < columns; c += kThreads) slot[c] = total[c];
}

// Unweighted, every warp has one row and the kernel as many blocks as that needs. Weighted, the
// blocks are the slots of dw, and their warps walk over the rows.
template <class T, int packs, bool weighted>
__global__ void __launch_bounds__(kThreads)
    backward_rows(const T* __restrict__ dy, const T* __restrict__ x, const float* __restrict__ w,
                  T* __restrict__ dx, float* __restrict__ slots, int64_t rows, int columns,
                  double eps) {
  const int lane = threadIdx.x % kWarp;
  Pack<T> sums[packs] = {};
  for (int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; row < rows;
       row += int64_t{gridDim.x} * kWarps) {
    const T *dy_row = dy + row * columns, *x_row = x + row * columns;
    RawPack<T> raw_dy[packs], raw_x[packs];
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int c = (k * kWarp + lane) * kPackSize<T>;
      raw_dy[k] = c < columns ? kl::load_pack(dy_row + c) : RawPack<T>{};
      raw_x[k] = c < columns ? kl::load_pack(x_row + c) : RawPack<T>{};
    }
    float squares = 0, products = 0;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int c = (k * kWarp + lane) * kPackSize<T>;
      const Pack<T> v = kl::unpack(raw_x[k]), g = kl::unpack(raw_dy[k]);
      const Pack<T> weight = weighted && c < columns ? weights<T>(w, c) : Pack<T>{};
#pragma unroll
      for (int i = 0; i < kPackSize<T>; ++i) {
        squares += v.v[i] * v.v[i];
        products += (weighted ? g.v[i] * weight.v[i] : g.v[i]) * v.v[i];
      }
    }
    squares = kl::warp_sum(squares);
    products = kl::warp_sum(products);
    RowScale scale = scale_of(squares, products, static_cast<float>(eps), columns);
    if (!in_range(squares, static_cast<float>(eps), columns) || !(fabsf(products) <= FLT_MAX))
      scale = scale_of(kl::warp_sum(squares_in_double(x_row, columns, lane, kWarp)),
                       kl::warp_sum(products_in_double(dy_row, x_row, weighted ? w : nullptr,
                                                       columns, lane, kWarp)),
                       eps, columns);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int c = (k * kWarp + lane) * kPackSize<T>;
      if (c >= columns) break;
      const Pack<T> v = kl::unpack(raw_x[k]), g = kl::unpack(raw_dy[k]);
      const Pack<T> weight = weighted ? weights<T>(w, c) : Pack<T>{};
      Pack<T> out;
#pragma unroll
      for (int i = 0; i < kPackSize<T>; ++i) {
        const float normed = v.v[i] * scale.inverse_rms;
        const float weighted_dy = weighted ? g.v[i] * weight.v[i] : g.v[i];
        out.v[i] = scale.inverse_rms * (weighted_dy - normed * scale.mean);
        if constexpr (weighted) sums[k].v[i] += g.v[i] * normed;
      }
      kl::store_pack(dx + row * columns + c, out);
    }
  }
  if constexpr (weighted) store_slot<T>(sums, slots + int64_t{blockIdx.x} * columns, columns);
}

// ---- any row: one block a row, element by element ----

template <class T>
__global__ void __launch_bounds__(kThreads)
    forward_any(const T* x, const float* w, T* y, int64_t rows, int64_t columns, double eps) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x_row = x + row * columns;
    const double squares =
        kl::block_sum(squares_in_double(x_row, columns, threadIdx.x, kThreads));
    const float r = static_cast<float>(inverse_rms(squares, eps, columns));
    for (int64_t c = threadIdx.x; c < columns; c += kThreads)
      y[row * columns + c] = static_cast<T>(static_cast<float>(x_row[c]) * r *
                                            (w != nullptr ? w[c] : 1.0f));
  }
}

// A thread always has the same columns, so its sums for dw can lie in the block's slot.
template <class T>
__global__ void __launch_bounds__(kThreads)
    backward_any(const T* dy, const T* x, const float* w, T* dx, float* slots, int64_t rows,
                 int64_t columns, double eps) {
  float* slot = slots == nullptr ? nullptr : slots + blockIdx.x * columns;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T *dy_row = dy + row * columns, *x_row = x + row * columns;
    const RowScale scale = scale_of(
        kl::block_sum(squares_in_double(x_row, columns, threadIdx.x, kThreads)),
        kl::block_sum(products_in_double(dy_row, x_row, w, columns, threadIdx.x, kThreads)), eps,
        columns);
    for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
      const float g = static_cast<float>(dy_row[c]);
      const float normed = static_cast<float>(x_row[c]) * scale.inverse_rms;
      dx[row * columns + c] = static_cast<T>(
          scale.inverse_rms * ((w != nullptr ? g * w[c] : g) - normed * scale.mean));
      if (slot != nullptr) slot[c] = (row == blockIdx.x ? 0.0f : slot[c]) + g * normed;
    }
  }
}

// Warps take the slots in turn, lanes the columns.
__global__ void __launch_bounds__(kThreads)
    add_slots(const float* slots, int count, float* dw, int64_t columns) {
  __shared__ float parts[kWarps][kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t c = int64_t{blockIdx.x} * kWarp + lane;
  float sum = 0;
  for (int slot = warp; slot < count && c < columns; slot += kWarps)
    sum += slots[slot * columns + c];
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || c >= columns) return;
  for (int i = 1; i < kWarps; ++i) sum += parts[i][lane];
  dw[c] += sum;
}

// ---- launches ----

constexpr int64_t kMaxBlocks = 1 << 20;  // of the kernels that walk over rows

unsigned blocks_for(int64_t work, int64_t per_block) {
  return static_cast<unsigned>(std::max<int64_t>(1, (work + per_block - 1) / per_block));
}

// Calls `launch` with the number of packs a lane holds; false if a row is too long for that.
template <class T, class Launch>
bool with_packs(int64_t columns, Launch launch) {
  const int64_t packs = (columns + kWarp * kPackSize<T> - 1) / (kWarp * kPackSize<T>);
  if (packs > kMaxPacks) return false;
  if (packs == 1) return launch(std::integral_constant<int, 1>{}), true;
  if (packs == 2) return launch(std::integral_constant<int, 2>{}), true;
  if (packs <= 4) return launch(std::integral_constant<int, 4>{}), true;
  return launch(std::integral_constant<int, 8>{}), true;
}

template <class T>
void forward(const Plan& p, const kl_call* call, cudaStream_t stream) {
  const T* x = kl::data<const T>(call->inputs[0]);
  const float* w = p.weighted ? kl::data<const float>(call->inputs[1]) : nullptr;
  T* y = kl::data<T>(call->outputs[0]);
  const double eps = call->scalars[0];
  const int columns = static_cast<int>(p.columns);
  const auto launch = [&](auto packs) {
    const auto kernel =
        p.weighted ? forward_rows<T, packs.value, true> : forward_rows<T, packs.value, false>;
    kernel<<<blocks_for(p.rows, kWarps), kThreads, 0, stream>>>(x, w, y, p.rows, columns, eps);
  };
  const bool aligned = kl::is_pack_aligned(x) && kl::is_pack_aligned(w) && kl::is_pack_aligned(y);
  if (p.whole && aligned && with_packs<T>(p.columns, launch)) return;
  forward_any<T><<<static_cast<unsigned>(std::min(p.rows, kMaxBlocks)), kThreads, 0, stream>>>(
      x, w, y, p.rows, p.columns, eps);
}

template <class T>
void backward(const Plan& p, const kl_call* call, cudaStream_t stream) {
  const T* dy = kl::data<const T>(call->inputs[0]);
  const T* x = kl::data<const T>(call->inputs[1]);
  const float* w = p.weighted ? kl::data<const float>(call->inputs[2]) : nullptr;
  T* dx = kl::data<T>(call->outputs[0]);
  float* slots = kl::is_present(call->outputs[1]) ? static_cast<float*>(call->scratch) : nullptr;
  const double eps = call->scalars[0];
  const int columns = static_cast<int>(p.columns);
  const unsigned blocks = slots != nullptr ? static_cast<unsigned>(p.slots)
                                           : blocks_for(p.rows, kWarps);
  const auto launch = [&](auto packs) {
    const auto kernel =
        p.weighted ? backward_rows<T, packs.value, true> : backward_rows<T, packs.value, false>;
    kernel<<<blocks, kThreads, 0, stream>>>(dy, x, w, dx, slots, p.rows, columns, eps);
  };
  const bool aligned = kl::is_pack_aligned(dy) && kl::is_pack_aligned(x) &&
                       kl::is_pack_aligned(w) && kl::is_pack_aligned(dx);
  const bool in_pairs = p.weighted == (slots != nullptr);  // w and dw come together
  if (!(p.whole && aligned && in_pairs && with_packs<T>(p.columns, launch)))
    backward_any<T><<<slots != nullptr ? blocks
                                       : static_cast<unsigned>(std::min(p.rows, kMaxBlocks)),
                      kThreads, 0, stream>>>(dy, x, w, dx, slots, p.rows, p.columns, eps);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream on) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto stream = static_cast<cudaStream_t>(on);
  if (p.rows == 0) return kl::ok();
  if (p.operation == KL_FORWARD) {
    p.is_bf16 ? forward<bf16>(p, call, stream) : forward<float>(p, call, stream);
    return kl::launch_status();
  }
  p.is_bf16 ? backward<bf16>(p, call, stream) : backward<float>(p, call, stream);
  if (const kl_result status = kl::launch_status(); status.code != KL_OK) return status;
  if (!kl::is_present(call->outputs[1])) return kl::ok();
  add_slots<<<blocks_for(p.columns, kWarp), kThreads, 0, stream>>>(
      static_cast<const float*>(call->scratch), p.slots, kl::data<float>(call->outputs[1]),
      p.columns);
  return kl::launch_status();
}

}  // namespace

KL_EXPORT_KERNEL("rmsnorm", accepts, scratch_bytes, saved_bytes, prepare, run);
