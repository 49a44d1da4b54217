// rmsnorm for Hopper GPUs, f32 and bf16; w and dw are f32. Arithmetic is in float.
// A row that a warp's registers can hold has a warp, and is read once. A longer one has a block,
// and is read twice, the second time from a cache. Both read packs of 16 bytes where rows are whole
// ones at 16-byte addresses, and single elements elsewhere, neighbouring lanes neighbouring ones.
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

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMaxSlots = 512;  // blocks that sum dw
constexpr int kSlotsPerMultiprocessor = 3;

struct Plan {
  int32_t operation;
  bool is_bf16, weighted, whole;  // whole: rows are whole packs
  uint32_t most_slots;
  int32_t columns;
  int64_t rows;
};

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD) return kl::unsupported("operation is not rmsnorm's");
  if (p->input_count != (forward ? 2 : 3) || p->output_count != (forward ? 1 : 2) ||
      p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  const DLTensor& first = p->inputs[0];
  if (first.ndim != 2 || first.shape[1] < 1) return kl::bad_argument("x must be [N,C] with C >= 1");
  const int64_t rows = first.shape[0], columns = first.shape[1];
  const auto is_matrix = [&](const DLTensor& t) {
    return kl::is_packed(t, kl::is_bf16(first) ? kl::is_bf16(t) : kl::is_f32(t), {rows, columns});
  };
  const auto is_vector = [&](const DLTensor& t) {
    return kl::is_packed(t, kl::is_f32(t), {columns});
  };
  const DLTensor &last = p->inputs[forward ? 0 : 1], &w = p->inputs[forward ? 1 : 2];
  if (!is_matrix(first) || !is_matrix(last) || !is_matrix(p->outputs[0]))
    return kl::unsupported("x, dy, y, dx: packed [N,C], all f32 or all bf16");
  if (std::max(rows, columns) > INT32_MAX / 2) return kl::unsupported("N, C < 2^30");
  if (kl::is_present(w) && !is_vector(w)) return kl::unsupported("w: packed f32 [C]");
  if (!forward && kl::is_present(p->outputs[1]) && !(kl::is_present(w) && is_vector(p->outputs[1])))
    return kl::unsupported("dw: packed f32 [C], with w");
  return kl::ok();
}

size_t scratch_bytes(const kl_problem* p) {
  if (p->operation == KL_FORWARD || !kl::is_present(p->outputs[1])) return 0;
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
  kl::store(
      plan,
      Plan{p->operation, half, kl::is_present(p->inputs[p->operation == KL_FORWARD ? 1 : 2]),
           columns % (half ? kPackSize<bf16> : kPackSize<float>) == 0,
           static_cast<uint32_t>(std::min(multiprocessors * kSlotsPerMultiprocessor, kMaxSlots)),
           static_cast<int32_t>(columns), rows});
  return kl::ok();
}

// ---- who has a row ----

// A warp, of which lane l holds packs (or elements) l, l + 32, ..., `loads` of them; or, with no
// loads, a block that reads them from memory each time.
template <class T, int width, int loads>
struct Sharing {
  static constexpr bool held = loads > 0;
  static constexpr int size = held ? kWarp : 512;
  static constexpr int threads = held ? kThreads : size, rows = threads / size;  // of a block
  using Raw = std::conditional_t<width == 1, T, kl::RawPack<T>>;
  using Held = Raw[held ? loads : 1];

  static __device__ int rank() { return threadIdx.x % size; }
  template <class V>
  static __device__ V sum(V value) {
    if constexpr (held)
      return kl::warp_sum(value);
    else
      return kl::block_sum(value);
  }
  // The place of this thread's pack k.
  static __device__ int column(int k) { return (k * size + rank()) * width; }
  static __device__ int packs(int columns) {
    return held ? loads : (columns + size * width - 1) / (size * width);
  }
  static __device__ Raw read(const T* row, int k, int columns) {
    return column(k) < columns ? kl::load<width>(row + column(k)) : Raw{};
  }
  static __device__ Pack<T, width> pack(const Held& raw, const T* row, int k, int columns) {
    return kl::unpack(held ? raw[k] : read(row, k, columns));
  }
};

// ---- a row, by its sums ----

// Squares that overflow, or vanish where eps does not hide it, are summed again in double.
__device__ bool in_range(float squares, float eps, int64_t columns) {
  return squares <= FLT_MAX && squares + eps * static_cast<float>(columns) > 1e-30f;
}
template <class Sharing, class T>
__device__ double squares_in_double(const T* x, int64_t columns) {
  double sum = 0;
  for (int64_t c = Sharing::rank(); c < columns; c += Sharing::size) {
    const double v = static_cast<float>(x[c]);
    sum += v * v;
  }
  return Sharing::sum(sum);
}
template <class Sharing, class T>
__device__ double products_in_double(const T* dy, const T* x, const float* w, int64_t columns) {
  double sum = 0;
  for (int64_t c = Sharing::rank(); c < columns; c += Sharing::size)
    sum +=
        double{static_cast<float>(dy[c])} * (w != nullptr ? w[c] : 1.0f) * static_cast<float>(x[c]);
  return Sharing::sum(sum);
}

__device__ float inverse_rms(float squares, float eps, int64_t columns) {
  return __frsqrt_rn(squares / static_cast<float>(columns) + eps);
}
__device__ double inverse_rms(double squares, double eps, int64_t columns) {
  return 1.0 / sqrt(squares / static_cast<double>(columns) + eps);
}

// From this thread's part of the squares.
template <class Sharing, class T>
__device__ float inverse_rms(float squares, const T* x, int64_t columns, double eps) {
  const auto eps_f = static_cast<float>(eps);
  squares = Sharing::sum(squares);
  if (in_range(squares, eps_f, columns)) return inverse_rms(squares, eps_f, columns);
  return static_cast<float>(inverse_rms(squares_in_double<Sharing>(x, columns), eps, columns));
}

// What backward needs to know of a row before it can write it.
struct RowScale {
  float inverse_rms;
  float mean;  // of w * dy * x * inverse_rms
};
template <class Sharing, class T>
__device__ RowScale scale_of(float squares, float products, const T* dy, const T* x, const float* w,
                             int64_t columns, double eps) {
  const auto eps_f = static_cast<float>(eps);
  squares = Sharing::sum(squares);
  products = Sharing::sum(products);
  const float r = inverse_rms(squares, eps_f, columns);
  RowScale scale = {r, products / static_cast<float>(columns) * r};
  if (!in_range(squares, eps_f, columns) || !(fabsf(products) <= FLT_MAX)) {
    const double exact_squares = squares_in_double<Sharing>(x, columns),
                 exact_products = products_in_double<Sharing>(dy, x, w, columns),
                 exact = inverse_rms(exact_squares, eps, columns);
    scale = {static_cast<float>(exact),
             static_cast<float>(exact_products * exact / static_cast<double>(columns))};
  }
  return scale;
}

// ---- a pack, or element ----

template <class T, int width, bool weighted>
__device__ Pack<T, width> weights(const float* w, int column, int columns) {
  Pack<T, width> pack;
#pragma unroll
  for (int i = 0; i < width; ++i) pack.v[i] = 1.0f;
  if (!weighted || column >= columns) return pack;
  if constexpr (width == 1) {
    pack.v[0] = __ldg(w + column);
  } else {
#pragma unroll
    for (int i = 0; i < width; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(w + column + i));
      pack.v[i] = four.x, pack.v[i + 1] = four.y, pack.v[i + 2] = four.z, pack.v[i + 3] = four.w;
    }
  }
  return pack;
}

template <class T, int width>
__device__ void add_squares(float& sum, const Pack<T, width>& x) {
#pragma unroll
  for (int i = 0; i < width; ++i) sum += x.v[i] * x.v[i];
}
template <class T, int width>
__device__ void store_scaled(T* y, const Pack<T, width>& x, float r, const Pack<T, width>& w) {
  Pack<T, width> out;
#pragma unroll
  for (int i = 0; i < width; ++i) out.v[i] = x.v[i] * (r * w.v[i]);
  kl::store_pack(y, out);
}
template <class T, int width>
__device__ void add_sums(float& squares, float& products, const Pack<T, width>& dy,
                         const Pack<T, width>& x, const Pack<T, width>& w) {
#pragma unroll
  for (int i = 0; i < width; ++i) {
    squares += x.v[i] * x.v[i];
    products += dy.v[i] * w.v[i] * x.v[i];
  }
}
template <class T, int width>
__device__ void store_gradient(T* dx, const Pack<T, width>& dy, const Pack<T, width>& x,
                               const Pack<T, width>& w, RowScale scale) {
  Pack<T, width> out;
#pragma unroll
  for (int i = 0; i < width; ++i)
    out.v[i] = scale.inverse_rms * (dy.v[i] * w.v[i] - x.v[i] * scale.inverse_rms * scale.mean);
  kl::store_pack(dx, out);
}

// ---- rows ----

template <class T, int width, int loads, bool weighted>
__global__ void __launch_bounds__(Sharing<T, width, loads>::threads,
                                  loads > 0 && width == 1 ? 2 : 0)
    forward_rows(const T* __restrict__ x, const float* __restrict__ w, T* __restrict__ y,
                 int64_t rows, int columns, double eps) {
  using S = Sharing<T, width, loads>;
  const int64_t row = int64_t{blockIdx.x} * S::rows + threadIdx.x / S::size;
  if (row >= rows) return;
  x += row * columns;
  y += row * columns;
  const int packs = S::packs(columns);
  typename S::Held raw;
#pragma unroll
  for (int k = 0; k < loads; ++k) raw[k] = S::read(x, k, columns);
  // Single weights are asked for with the row: after the sum, each would be waited for.
  constexpr bool early = weighted && width == 1 && loads > 0;
  Pack<T, width> row_weights[early ? loads : 1];
  if constexpr (early)
#pragma unroll
    for (int k = 0; k < loads; ++k)
      row_weights[k] = weights<T, width, weighted>(w, S::column(k), columns);
  float squares = 0;
#pragma unroll
  for (int k = 0; k < packs; ++k) add_squares(squares, S::pack(raw, x, k, columns));
  const float r = inverse_rms<S>(squares, x, columns, eps);
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    const int c = S::column(k);
    if (c >= columns) break;
    store_scaled(y + c, S::pack(raw, x, k, columns), r,
                 early ? row_weights[early ? k : 0] : weights<T, width, weighted>(w, c, columns));
  }
}

// Adds up the sums of a block's warps, in their order. A single slot is dw itself.
template <class T, int width, int loads>
__device__ void store_slot(const Pack<T, width> (&sums)[loads], float* slot, int columns) {
  using S = Sharing<T, width, loads>;
  __shared__ float total[loads * kWarp * width];
  for (int turn = 0; turn < S::rows; ++turn) {
    if (turn == threadIdx.x / kWarp)
#pragma unroll
      for (int k = 0; k < loads; ++k)
#pragma unroll
        for (int i = 0; i < width; ++i) {
          float& t = total[S::column(k) + i];
          t = turn == 0 ? sums[k].v[i] : t + sums[k].v[i];
        }
    __syncthreads();
  }
  for (int c = threadIdx.x; c < columns; c += S::threads)
    slot[c] = gridDim.x == 1 ? slot[c] + total[c] : total[c];
}

// Without dw every group of threads has one row; with it there are as many blocks as slots.
template <class T, int width, int loads, bool weighted>
__global__ void __launch_bounds__(Sharing<T, width, loads>::threads, loads == 0 ? 2 : 0)
    backward_rows(const T* __restrict__ dy, const T* __restrict__ x, const float* __restrict__ w,
                  T* __restrict__ dx, float* __restrict__ slots, int64_t rows, int columns,
                  double eps) {
  using S = Sharing<T, width, loads>;
  const int packs = S::packs(columns);
  float* slot = slots + int64_t{blockIdx.x} * columns;
  Pack<T, width> sums[S::held ? loads : 1] = {};
  for (int64_t row = int64_t{blockIdx.x} * S::rows + threadIdx.x / S::size; row < rows;
       row += int64_t{gridDim.x} * S::rows) {
    const T *dy_row = dy + row * columns, *x_row = x + row * columns;
    typename S::Held raw_dy, raw_x;
#pragma unroll
    for (int k = 0; k < loads; ++k) {
      raw_dy[k] = S::read(dy_row, k, columns);
      raw_x[k] = S::read(x_row, k, columns);
    }
    float squares = 0, products = 0;
#pragma unroll
    for (int k = 0; k < packs; ++k)
      add_sums(squares, products, S::pack(raw_dy, dy_row, k, columns),
               S::pack(raw_x, x_row, k, columns),
               weights<T, width, weighted>(w, S::column(k), columns));
    const RowScale scale =
        scale_of<S>(squares, products, dy_row, x_row, weighted ? w : nullptr, columns, eps);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int c = S::column(k);
      if (c >= columns) break;
      const Pack<T, width> g = S::pack(raw_dy, dy_row, k, columns),
                           v = S::pack(raw_x, x_row, k, columns);
      store_gradient(dx + row * columns + c, g, v, weights<T, width, weighted>(w, c, columns),
                     scale);
      if constexpr (S::held && weighted)
#pragma unroll
        for (int i = 0; i < width; ++i) sums[k].v[i] += g.v[i] * (v.v[i] * scale.inverse_rms);
    }
    if constexpr (!S::held && weighted)  // a thread has the same columns of every row
      for (int c = threadIdx.x; slots != nullptr && c < columns; c += S::threads) {
        const float before = row == blockIdx.x && gridDim.x > 1 ? 0.0f : slot[c];
        const float normed = static_cast<float>(x_row[c]) * scale.inverse_rms;
        slot[c] = before + static_cast<float>(dy_row[c]) * normed;
      }
  }
  if constexpr (S::held && weighted)
    if (slots != nullptr) store_slot(sums, slot, columns);
}

// Warps take the slots in turn, lanes the columns.
__global__ void __launch_bounds__(kThreads)
    add_slots(const float* slots, int count, float* dw, int columns) {
  __shared__ float parts[kWarps][kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int c = blockIdx.x * kWarp + lane;
  float sum = 0;
#pragma unroll 8
  for (int slot = warp; slot < count && c < columns; slot += kWarps)
    sum += slots[int64_t{slot} * columns + c];
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || c >= columns) return;
  for (int i = 1; i < kWarps; ++i) sum += parts[i][lane];
  dw[c] += sum;
}

// ---- launches ----

template <int n>
using Number = std::integral_constant<int, n>;

// Calls `launch` with the width of a load and the number of loads with which a warp holds a row;
// with 0 where those would be too many.
template <class T, class Launch>
void with_loads(bool in_packs, int columns, Launch launch) {
  const auto fewest_of = [&](auto width, auto... loads) {
    const bool held = ((columns <= width * loads * kWarp && (launch(width, loads), true)) || ...);
    if (!held) launch(width, Number<0>{});
  };
  in_packs ? fewest_of(Number<kPackSize<T>>{}, Number<1>{}, Number<2>{}, Number<4>{}, Number<8>{})
           : fewest_of(Number<1>{}, Number<8>{}, Number<32>{});
}

unsigned blocks_for(int64_t work, int per_block) {
  return static_cast<unsigned>((work + per_block - 1) / per_block);
}

template <class T>
kl_result forward(const Plan& p, const kl_call* call, cudaStream_t stream) {
  const T* x = kl::data<const T>(call->inputs[0]);
  const float* w = p.weighted ? kl::data<const float>(call->inputs[1]) : nullptr;
  T* y = kl::data<T>(call->outputs[0]);
  const bool aligned = kl::is_pack_aligned(x) && kl::is_pack_aligned(w) && kl::is_pack_aligned(y);
  with_loads<T>(p.whole && aligned, p.columns, [&](auto width, auto loads) {
    using S = Sharing<T, width, loads>;
    const auto kernel =
        p.weighted ? forward_rows<T, width, loads, true> : forward_rows<T, width, loads, false>;
    kernel<<<blocks_for(p.rows, S::rows), S::threads, 0, stream>>>(x, w, y, p.rows, p.columns,
                                                                   call->scalars[0]);
  });
  return kl::launch_status();
}

template <class T>
kl_result backward(const Plan& p, const kl_call* call, cudaStream_t stream) {
  const T* dy = kl::data<const T>(call->inputs[0]);
  const T* x = kl::data<const T>(call->inputs[1]);
  const float* w = p.weighted ? kl::data<const float>(call->inputs[2]) : nullptr;
  T* dx = kl::data<T>(call->outputs[0]);
  float* dw = kl::is_present(call->outputs[1]) ? kl::data<float>(call->outputs[1]) : nullptr;
  float* slots = dw;
  unsigned blocks = 0;
  const bool aligned = kl::is_pack_aligned(dy) && kl::is_pack_aligned(x) &&
                       kl::is_pack_aligned(w) && kl::is_pack_aligned(dx);
  with_loads<T>(p.whole && aligned, p.columns, [&](auto width, auto loads) {
    using S = Sharing<T, width, loads>;
    blocks = blocks_for(p.rows, S::rows);
    if (dw != nullptr && blocks <= 2) {
      blocks = 1;  // its second turn is done before another kernel would have begun
    } else if (dw != nullptr) {
      blocks = std::min(blocks, p.most_slots);
      slots = static_cast<float*>(call->scratch);
    }
    const auto kernel =
        p.weighted ? backward_rows<T, width, loads, true> : backward_rows<T, width, loads, false>;
    kernel<<<blocks, S::threads, 0, stream>>>(dy, x, w, dx, slots, p.rows, p.columns,
                                              call->scalars[0]);
  });
  const kl_result status = kl::launch_status();
  if (status.code != KL_OK || slots == dw) return status;
  add_slots<<<blocks_for(p.columns, kWarp), kThreads, 0, stream>>>(slots, blocks, dw, p.columns);
  return kl::launch_status();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream on) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto stream = static_cast<cudaStream_t>(on);
  if (p.rows == 0) return kl::ok();
  if (p.operation == KL_FORWARD)
    return p.is_bf16 ? forward<bf16>(p, call, stream) : forward<float>(p, call, stream);
  return p.is_bf16 ? backward<bf16>(p, call, stream) : backward<float>(p, call, stream);
}

}  // namespace

KL_EXPORT_KERNEL("rmsnorm", accepts, scratch_bytes, saved_bytes, prepare, run);
