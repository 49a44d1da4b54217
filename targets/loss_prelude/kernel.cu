// loss_prelude for Hopper GPUs, f32 and bf16. Forward reads the logits once and leaves two floats
// a row in `saved`; backward reads them once more and writes the gradient: 3 passes over [N,V].
//
// Memory bounds it only if tanh and exp cost little. For bf16 the special function units, with 16
// results a cycle and multiprocessor, must be spared: eight tanh share one reciprocal and some
// exponentials are polynomials. For f32 logits near 0 tanh is a polynomial.
// |s*tanh(z/s)| <= s, so for s <= 40 exp needs no shift and no row maximum to stay in range.
#include <kernel_lab/packs.cuh>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace {

using kl::bf16;
using kl::kPackSize;
using kl::kWarp;
using kl::Pack;
using kl::RawPack;

constexpr int kMaxThreads = 256;
constexpr int kMaxWarps = kMaxThreads / kWarp;
constexpr int kForwardThreads = 1280;  // that stay on a multiprocessor and walk over rows
constexpr int kBackwardThreads = 1024;
constexpr int kMaxBlocksPerMultiprocessor = 32;
constexpr int kMaxBlocks = 8192;  // each leaves its partial sums in forward
// Packs a thread has asked for before it uses the first.
constexpr int kForwardInFlight = 4;
constexpr int kBackwardInFlight = 2;
constexpr int kPolynomials = 2;  // of the eight exponentials of a pack
constexpr double kNear = 0.55;   // |z/s| under which a polynomial is tanh
constexpr double kNoShiftSoftcap = 40;
// From here on the roundings of a row's sum hide those of the fast exponential (README).
constexpr int64_t kFastVocabulary = 256;
constexpr double kLog2E = 1.4426950408889634;
constexpr int32_t kIgnored = -1;

struct Plan {
  int32_t operation;
  bool is_bf16, whole;  // whole: rows are whole packs
  int32_t threads, blocks;
  int64_t rows, vocabulary;
};

// What forward leaves for backward, per row: exp(s*t - s*shift) * inverse_sum is the probability.
struct SavedRow {
  float shift;  // largest t of the row, or 0
  float inverse_sum;
};

struct Sums {
  double nll, bytes;
};

const DLTensor& logits_of(const kl_problem* p) {
  return p->inputs[p->operation == KL_FORWARD ? 0 : 1];
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not loss_prelude's");
  if (p->input_count != 3 || p->output_count != (forward ? 3 : 1) || p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  if (!(p->scalars[0] > 0)) return kl::bad_argument("softcap must be positive");
  const DLTensor &logits = logits_of(p), &targets = p->inputs[forward ? 1 : 2],
                 &last = p->inputs[2], &out = p->outputs[0];
  if (logits.ndim != 2 || logits.shape[1] < 1)
    return kl::bad_argument("logits must be [N,V] with V >= 1");
  const int64_t rows = logits.shape[0], vocabulary = logits.shape[1];
  const auto is_logits = [&](const DLTensor& t) {
    const bool right_type = kl::is_bf16(logits) ? kl::is_bf16(t) : kl::is_f32(t);
    return kl::is_packed(t, right_type, {rows, vocabulary});
  };
  if (!is_logits(logits) || vocabulary > INT32_MAX / 2)
    return kl::unsupported("logits: packed f32 or bf16 [N,V], V < 2^30");
  if (!kl::is_packed(targets, kl::is_i32(targets), {rows}))
    return kl::unsupported("targets: packed i32 [N]");
  if (!forward)
    return !kl::is_f32(p->inputs[0]) ? kl::unsupported("g: f32 [1]")
           : !is_logits(out)         ? kl::unsupported("dlogits: packed [N,V] of the logits' dtype")
                                     : kl::ok();
  if (!kl::is_packed(last, kl::is_i32(last), {vocabulary}))
    return kl::unsupported("token_bytes: packed i32 [V]");
  if (!kl::is_packed(out, kl::is_f32(out), {rows})) return kl::unsupported("nll: packed f32 [N]");
  if (!kl::is_f64(p->outputs[1]) || !kl::is_f64(p->outputs[2]))
    return kl::unsupported("nll_sum, byte_sum: f64 [1]");
  return kl::ok();
}

size_t scratch_bytes(const kl_problem* p) {
  if (p->operation != KL_FORWARD) return 0;
  return static_cast<size_t>(std::clamp<int64_t>(p->inputs[0].shape[0], 1, kMaxBlocks)) *
         sizeof(Sums);
}

size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(logits_of(p).shape[0]) * sizeof(SavedRow);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int multiprocessors = kl::multiprocessors();
  if (multiprocessors == 0) return kl::unsupported("no CUDA device is current");
  const DLTensor& logits = logits_of(p);
  const int64_t rows = logits.shape[0], vocabulary = logits.shape[1];
  const bool half = kl::is_bf16(logits);
  const int pack = half ? kPackSize<bf16> : kPackSize<float>;
  const int64_t per_warp = pack * kWarp * kForwardInFlight;
  const int64_t warps = (vocabulary + per_warp - 1) / per_warp;
  const auto threads = static_cast<int32_t>(std::min<int64_t>(warps, kMaxWarps)) * kWarp;
  const bool forward = p->operation == KL_FORWARD;
  const int stay = (forward ? kForwardThreads : kBackwardThreads) / threads;
  const int64_t walkers =
      std::min(multiprocessors * std::min(stay, kMaxBlocksPerMultiprocessor), kMaxBlocks);
  // Backward with a block a row is 6 % faster for f32 and 6 % slower for bf16.
  const int64_t blocks = forward || half ? walkers : INT32_MAX;
  kl::store(plan, Plan{p->operation, half, vocabulary % pack == 0, threads,
                       static_cast<int32_t>(std::min(blocks, rows)), rows, vocabulary});
  return kl::ok();
}

// ---- tanh, exp and the slope of tanh, of one pack ----

// A softcap's constants, rounded from double.
struct Cap {
  float softcap;
  float decay;     // exp(-2|z|/s) = 2^(decay*|z|)
  float exponent;  // exp(s*t) = 2^(exponent*t)
  float inverse;   // 1/s
  float near;      // kNear * s; 0 where 1/s is too large for a float
  explicit Cap(double s)
      : softcap(static_cast<float>(s)),
        decay(static_cast<float>(-2 * kLog2E / s)),
        exponent(static_cast<float>(s * kLog2E)),
        inverse(static_cast<float>(1 / s)),
        near(std::isfinite(inverse) ? static_cast<float>(kNear * s) : 0) {}
};

__device__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The same without the special function unit, for |x| < 126: 2^k by the exponent's bits, the rest
// by a minimax polynomial (relative error 7.5e-8). A NaN does not survive it.
__device__ float power_by_polynomial(float x) {
  const float moved = x + 12582912.0f;  // 1.5 * 2^23: its low bits are k, the nearest integer
  const float f = x - (moved - 12582912.0f);
  float p = 1.32764725e-3f;
  p = p * f + 9.67554096e-3f;
  p = p * f + 5.55071309e-2f;
  p = p * f + 2.40221202e-1f;
  p = p * f + 6.93146944e-1f;
  p = p * f + 1.00000012f;
  return __int_as_float(__float_as_int(p) + (__float_as_int(moved) << 23));
}

// Reciprocals of n numbers in [1, 2] for the price of one, and 3 products each.
template <int n>
__device__ void invert(float (&x)[n]) {
  if constexpr (n == 1) {
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(x[0]) : "f"(x[0]));
  } else {
    float pairs[n / 2];
#pragma unroll
    for (int i = 0; i < n / 2; ++i) pairs[i] = x[2 * i] * x[2 * i + 1];
    invert(pairs);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const float first = x[2 * i];
      x[2 * i] = pairs[i] * x[2 * i + 1];
      x[2 * i + 1] = pairs[i] * first;
    }
  }
}

// How exp(s*tanh(z/s)) is computed.
enum class Maths {
  plain,    // tanhf and expf: short bf16 rows
  shifted,  // the same, less the largest tanh of the row: s > 40
  near,     // f32: a polynomial instead of tanhf where all packs of a warp are near 0
  fast      // bf16 rows of kFastVocabulary and more: below
};

template <class T>
struct Capped {
  Pack<T> exp;    // exp(s*t - s*shift), t = tanh(z/s)
  Pack<T> slope;  // (1 - t^2) / slope_unit
};
__host__ __device__ constexpr float slope_unit(Maths maths) {
  return maths == Maths::fast ? 4.0f : 1.0f;
}

template <class T>
__device__ bool is_near(const Pack<T>& z, const Cap& cap) {
  bool near = true;
#pragma unroll
  for (int i = 0; i < kPackSize<T>; ++i) near &= fabsf(z.v[i]) < cap.near;  // a NaN is not
  return near;
}

// s*tanh(z/s) for |z| < cap.near: z*(1 + a polynomial), relative error 4e-8 before rounding.
__device__ float capped_near(float z, const Cap& cap) {
  const float u = z * cap.inverse, u2 = u * u;
  float p = 1.64375798e-2f;
  p = p * u2 - 5.26718128e-2f;
  p = p * u2 + 1.33207250e-1f;
  p = p * u2 - 3.33329466e-1f;
  return fmaf(z, p * u2, z);
}

// `lanes`: those of the warp that are here. They choose together, or a warp would take both ways.
template <Maths maths, class T>
__device__ Capped<T> capped(const Pack<T>& z, const Cap& cap, float shift, unsigned lanes) {
  constexpr int n = kPackSize<T>;
  Capped<T> out;
  if (maths == Maths::near && __all_sync(lanes, is_near(z, cap))) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float m = capped_near(z.v[i], cap), t = m * cap.inverse;
      out.exp.v[i] = expf(m);
      out.slope.v[i] = 1.0f - t * t;
    }
    return out;
  }
  if constexpr (maths == Maths::fast) {
    // With e = exp(-2|u|) and q = 1/(1 + e):  |tanh u| = 2q - 1,  1 - tanh^2 u = 4*e*q^2.
    // 2q - 1 is off by some 1e-7 however small it is: hence kFastVocabulary.
    float e[n], q[n];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      e[i] = power_of_two(fabsf(z.v[i]) * cap.decay);
      q[i] = 1.0f + e[i];
    }
    invert(q);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float x = copysignf(fmaf(2 * cap.exponent, q[i], -cap.exponent), z.v[i]);
      // A NaN is in all eight reciprocals, so that the row's sum is one either way.
      out.exp.v[i] = i < kPolynomials ? power_by_polynomial(x) : power_of_two(x);
      out.slope.v[i] = e[i] * q[i] * q[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float t = tanhf(z.v[i] / cap.softcap);
      out.exp.v[i] = expf(cap.softcap * (maths == Maths::shifted ? t - shift : t));
      out.slope.v[i] = 1.0f - t * t;
    }
  }
  return out;
}

template <class T>
__device__ float sum_of(const Pack<T>& p) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPackSize<T>; i += 4)
    sum += (p.v[i] + p.v[i + 1]) + (p.v[i + 2] + p.v[i + 3]);
  return sum;
}

// Calls `use` with the place and the numbers of each pack of a row that is this thread's, and the
// lanes of the warp that do so. `in_flight` of them are asked for, by `read`, before the first is
// used; a warp's lanes leave that loop together, so that later too the lanes at work are the first
// ones.
template <class T, bool whole, int in_flight, class Read, class Use>
__device__ void each_pack(const T* z, int vocabulary, Read read, Use use) {
  constexpr int n = kPackSize<T>;
  const int step = blockDim.x * n, lane = threadIdx.x % kl::kWarp;
  int warp = (threadIdx.x - lane) * n;  // the place of its first lane
  if constexpr (whole)
    for (; warp + (kl::kWarp - 1) * n + (in_flight - 1) * step < vocabulary;
         warp += in_flight * step) {
      const int v = warp + lane * n;
      RawPack<T> raw[in_flight];
#pragma unroll
      for (int k = 0; k < in_flight; ++k) raw[k] = read(z + v + k * step);
#pragma unroll
      for (int k = 0; k < in_flight; ++k) use(v + k * step, kl::unpack(raw[k]), ~0u);
    }
  for (; warp + lane * n < vocabulary; warp += step) {
    const int v = warp + lane * n, lanes = (vocabulary - warp + n - 1) / n;
    use(v, whole ? kl::unpack(read(z + v)) : kl::load_some(z + v, vocabulary - v),
        lanes >= kl::kWarp ? ~0u : (1u << lanes) - 1);
  }
}

// ---- forward ----

// This thread's part of the row's sum of exponentials.
template <class T, bool whole, Maths maths>
__device__ float part_of_sum(const T* z, int vocabulary, const Cap& cap, float shift) {
  float sum = 0;
  const auto read = [](const T* from) { return kl::stream_in(from); };
  each_pack<T, whole, kForwardInFlight>(
      z, vocabulary, read, [&](int v, const Pack<T>& pack, unsigned lanes) {
        Pack<T> exp = capped<maths>(pack, cap, shift, lanes).exp;
#pragma unroll
        for (int i = 0; i < kPackSize<T>; ++i)
          exp.v[i] = whole || i < vocabulary - v ? exp.v[i] : 0.0f;
        sum += sum_of(exp);
      });
  return sum;
}

template <class T>
__device__ float largest_tanh(const T* z, int vocabulary, const Cap& cap) {
  float largest = -INFINITY;
  for (int v = threadIdx.x; v < vocabulary; v += blockDim.x)
    largest = fmaxf(largest, static_cast<float>(z[v]));
  return tanhf(kl::block_max(largest) / cap.softcap);
}

// Finishes one row from its warps' sums: writes what is known of it, returns its part of the sums.
template <class T>
__device__ Sums finish_row(const float* parts, int warps, float shift, const T* z, int target,
                           const int32_t* token_bytes, int vocabulary, double softcap, float* nll,
                           SavedRow* saved) {
  double sum = 0;
  for (int i = 0; i < warps; ++i) sum += parts[i];
  *saved = {shift, static_cast<float>(1 / sum)};
  if (target < 0 || target >= vocabulary) {  // a broken batch is not a number
    const float value = target == kIgnored ? 0.0f : NAN;
    *nll = value;
    return {value, 0};
  }
  const double t = tanh(static_cast<double>(static_cast<float>(z[target])) / softcap);
  const auto value = static_cast<float>(log(sum) - softcap * (t - shift));
  *nll = value;
  return {value, static_cast<double>(token_bytes[target])};
}

// A block walks over rows, its warps each at their own pace for as many rows as a warp has lanes.
// Then one warp finishes these, a row a lane, while the others go on: the next barrier keeps them
// within the two halves of `parts`.
template <class T, bool whole, Maths maths>
__global__ void __launch_bounds__(kMaxThreads, kForwardThreads / kMaxThreads)
    forward_rows(const T* __restrict__ logits, const int32_t* __restrict__ targets,
                 const int32_t* __restrict__ token_bytes, float* __restrict__ nll,
                 SavedRow* __restrict__ saved, Sums* __restrict__ sums, int64_t rows,
                 int vocabulary, double softcap, Cap cap) {
  __shared__ float parts[2][kWarp][kMaxWarps + 1];  // an odd stride: no two lanes share a bank
  __shared__ float shifts[2][kWarp];
  const int warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  Sums mine = {0, 0};
  int turn = 0, half = 0;
  for (int64_t first = blockIdx.x; first < rows; first += int64_t{kWarp} * gridDim.x) {
    const int64_t row = first + int64_t{lane} * gridDim.x;  // that this lane finishes
    for (int i = 0; i < kWarp && first + int64_t{i} * gridDim.x < rows; ++i) {
      const T* z = logits + (first + int64_t{i} * gridDim.x) * vocabulary;
      const float shift = maths == Maths::shifted ? largest_tanh(z, vocabulary, cap) : 0;
      const float part = kl::warp_sum(part_of_sum<T, whole, maths>(z, vocabulary, cap, shift));
      if (lane == 0) parts[half][i][warp] = part;
      if (threadIdx.x == 0) shifts[half][i] = shift;
    }
    __syncthreads();
    if (warp == turn && row < rows) {
      const Sums one =
          finish_row(parts[half][lane], warps, shifts[half][lane], logits + row * vocabulary,
                     targets[row], token_bytes, vocabulary, softcap, &nll[row], &saved[row]);
      mine.nll += one.nll;
      mine.bytes += one.bytes;
    }
    turn = turn + 1 == warps ? 0 : turn + 1;
    half = 1 - half;
  }
  mine = {kl::block_sum(mine.nll), kl::block_sum(mine.bytes)};
  if (threadIdx.x == 0) sums[blockIdx.x] = mine;
}

__global__ void add_sums(const Sums* sums, int count, double* nll_sum, double* byte_sum) {
  Sums mine = {0, 0};
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    mine.nll += sums[i].nll;
    mine.bytes += sums[i].bytes;
  }
  mine = {kl::block_sum(mine.nll), kl::block_sum(mine.bytes)};
  if (threadIdx.x == 0) *nll_sum = mine.nll, *byte_sum = mine.bytes;
}

// ---- backward ----

// `target`: the place of the row's target in this pack, if it is in it.
template <class T, Maths maths>
__device__ Pack<T> gradient(const Pack<T>& z, const Cap& cap, SavedRow row, float gain, int target,
                            unsigned lanes) {
  Capped<T> c = capped<maths>(z, cap, row.shift, lanes);
#pragma unroll
  for (int i = 0; i < kPackSize<T>; ++i) c.exp.v[i] *= row.inverse_sum;
  if (target >= 0 && target < kPackSize<T>) {
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) c.exp.v[i] -= i == target ? 1.0f : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kPackSize<T>; ++i) c.exp.v[i] *= c.slope.v[i] * gain;
  return c.exp;
}

template <class T, bool whole, Maths maths>
__device__ void gradient_row(const T* z, T* dz, int vocabulary, const Cap& cap, SavedRow row,
                             float gain, int target) {
  const auto read = [](const T* from) { return kl::load_pack(from); };
  each_pack<T, whole, kBackwardInFlight>(
      z, vocabulary, read, [&](int v, const Pack<T>& pack, unsigned lanes) {
        if constexpr (whole)
          kl::store_pack(dz + v, gradient<T, maths>(pack, cap, row, gain, target - v, lanes));
        else
          kl::store_some(dz + v, gradient<T, maths>(pack, cap, row, gain, target - v, lanes),
                         vocabulary - v);
      });
}

template <class T, bool whole, Maths maths>
__global__ void __launch_bounds__(kMaxThreads, kBackwardThreads / kMaxThreads)
    backward_rows(const float* __restrict__ g, const T* __restrict__ logits,
                  const int32_t* __restrict__ targets, const SavedRow* __restrict__ saved,
                  T* __restrict__ dlogits, int64_t rows, int vocabulary, Cap cap) {
  const float gain = *g * slope_unit(maths);
  int next_target = targets[blockIdx.x];
  SavedRow next_saved = saved[blockIdx.x];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* z = logits + row * vocabulary;
    T* dz = dlogits + row * vocabulary;
    const int target = next_target;
    const SavedRow row_saved = next_saved;
    if (const int64_t next = row + gridDim.x; next < rows) {
      next_target = targets[next];
      next_saved = saved[next];
    }
    if (target >= 0 && target < vocabulary) {
      gradient_row<T, whole, maths>(z, dz, vocabulary, cap, row_saved, gain, target);
      continue;
    }
    const float value = target == kIgnored ? 0.0f : NAN;
    for (int v = threadIdx.x; v < vocabulary; v += blockDim.x) dz[v] = static_cast<T>(value);
  }
}

// ---- launches ----

// Calls `launch` with: rows are whole packs on 16 bytes; the maths.
template <class T, class Launch>
void with_path(bool whole, int64_t vocabulary, double softcap, Launch launch) {
  const auto with_maths = [&](auto maths) {
    whole ? launch(std::true_type{}, maths) : launch(std::false_type{}, maths);
  };
  if (softcap > kNoShiftSoftcap)
    with_maths(std::integral_constant<Maths, Maths::shifted>{});
  else if constexpr (std::is_same_v<T, float>)
    with_maths(std::integral_constant<Maths, Maths::near>{});
  else if (vocabulary < kFastVocabulary)
    with_maths(std::integral_constant<Maths, Maths::plain>{});
  else
    with_maths(std::integral_constant<Maths, Maths::fast>{});
}

template <class T>
void forward(const Plan& p, const kl_call* call, cudaStream_t stream) {
  const T* logits = kl::data<const T>(call->inputs[0]);
  const double softcap = call->scalars[0];
  with_path<T>(p.whole && kl::is_pack_aligned(logits), p.vocabulary, softcap,
               [&](auto whole, auto maths) {
                 forward_rows<T, whole, maths><<<p.blocks, p.threads, 0, stream>>>(
                     logits, kl::data<const int32_t>(call->inputs[1]),
                     kl::data<const int32_t>(call->inputs[2]), kl::data<float>(call->outputs[0]),
                     static_cast<SavedRow*>(call->saved), static_cast<Sums*>(call->scratch), p.rows,
                     static_cast<int>(p.vocabulary), softcap, Cap(softcap));
               });
}

template <class T>
void backward(const Plan& p, const kl_call* call, cudaStream_t stream) {
  const T* logits = kl::data<const T>(call->inputs[1]);
  T* dlogits = kl::data<T>(call->outputs[0]);
  const double softcap = call->scalars[0];
  with_path<T>(p.whole && kl::is_pack_aligned(logits) && kl::is_pack_aligned(dlogits), p.vocabulary,
               softcap, [&](auto whole, auto maths) {
                 backward_rows<T, whole, maths><<<p.blocks, p.threads, 0, stream>>>(
                     kl::data<const float>(call->inputs[0]), logits,
                     kl::data<const int32_t>(call->inputs[2]),
                     static_cast<const SavedRow*>(call->saved), dlogits, p.rows,
                     static_cast<int>(p.vocabulary), Cap(softcap));
               });
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream on) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto stream = static_cast<cudaStream_t>(on);
  if (p.operation == KL_BACKWARD) {
    if (p.rows == 0) return kl::ok();
    p.is_bf16 ? backward<bf16>(p, call, stream) : backward<float>(p, call, stream);
    return kl::launch_status();
  }
  if (p.rows > 0) {
    p.is_bf16 ? forward<bf16>(p, call, stream) : forward<float>(p, call, stream);
    if (const kl_result status = kl::launch_status(); status.code != KL_OK) return status;
  }
  add_sums<<<1, kMaxThreads, 0, stream>>>(static_cast<const Sums*>(call->scratch), p.blocks,
                                          kl::data<double>(call->outputs[1]),
                                          kl::data<double>(call->outputs[2]));
  return kl::launch_status();
}

}  // namespace

KL_EXPORT_KERNEL("loss_prelude", accepts, scratch_bytes, saved_bytes, prepare, run);
