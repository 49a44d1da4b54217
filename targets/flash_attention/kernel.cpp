// Attention for CPUs: blocks of queries against panels of keys, products in registers.
//   forward   S = q kᵀ of a block, softmax along its rows in a strip of scratch, o = P v
//   backward  S and dP = do vᵀ of a block, P from lse, dS = P (dP − do·o); dq, dk, dv from both
// A strip holds a block's rows and the keys that they see: never a whole T × T. One thread works on
// a key head at a time, with the query heads that share it, so that dk and dv have one writer.
// Operands are copied to scratch first, where rows are filled up with zeros to whole tiles.
#include <kernel_lab/exponential.hpp>
#include <kernel_lab/kernel.hpp>

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kBlock = 128;                    // queries of a block
constexpr int64_t kRows = kLanes == 16 ? 8 : 4;    // of a tile in registers; divides kLanes
constexpr int64_t kTile = kLanes == 16 ? 2 : 3;    // vectors of a tile in registers
constexpr int64_t kPanel = kTile * kLanes;         // columns of a tile, keys of a panel
constexpr int64_t kAhead = 8;                      // rows asked for before their turn
constexpr int64_t kProductsPerThread = 64 * 1024;  // fewer are not worth waking a thread for

constexpr int kDo = 0, kBackQ = 1, kBackO = 4, kBackLse = 5;

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t B, T, H, K, D;
};

int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
int64_t down(int64_t n, int64_t step) { return n / step * step; }

bool has_shape(const DLTensor& t, int64_t B, int64_t T, int64_t H, int64_t D) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 4 && t.shape[0] == B &&
         t.shape[1] == T && t.shape[2] == H && t.shape[3] == D;
}
bool is_lse(const DLTensor& t, int64_t B, int64_t H, int64_t T) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 3 && t.shape[0] == B &&
         t.shape[1] == H && t.shape[2] == T;
}

Plan plan_of(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  const DLTensor& q = p->inputs[forward ? 0 : kBackQ];
  const DLTensor& k = p->inputs[forward ? 1 : kBackQ + 1];
  Plan plan{p->operation, 1, q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.shape[3]};
  const int64_t heads = plan.B * plan.K;
  const int64_t products = plan.B * plan.H * plan.T * plan.T / 2 * plan.D;
  plan.threads = static_cast<int32_t>(
      std::clamp<int64_t>(std::min<int64_t>(p->threads, products / kProductsPerThread), 1,
                          std::max<int64_t>(heads, 1)));
  return plan;
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not flash_attention's");
  if (p->input_count != (forward ? 3 : 6) || p->output_count != (forward ? 2 : 3) ||
      p->scalar_count != 2)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  for (int i = 0; i < 3; ++i)
    if (p->inputs[i + (forward ? 0 : kBackQ)].ndim != 4)
      return kl::bad_argument("q, k, v must have four axes");
  const auto [operation, threads, B, T, H, K, D] = plan_of(p);
  if (T < 1 || D < 1 || K < 1 || H % K != 0)
    return kl::bad_argument("heads must be a multiple of the key heads, lengths at least 1");
  if (!(p->scalars[0] >= 0)) return kl::bad_argument("window must not be negative");
  const DLTensor* q = p->inputs + (forward ? 0 : kBackQ);
  bool fits = has_shape(q[0], B, T, H, D);
  for (int i = 1; i < 3; ++i) fits &= has_shape(q[i], B, T, K, D);
  if (forward) {
    fits &= has_shape(p->outputs[0], B, T, H, D) && is_lse(p->outputs[1], B, H, T);
  } else {
    fits &= has_shape(p->inputs[kDo], B, T, H, D) && has_shape(p->inputs[kBackO], B, T, H, D) &&
            is_lse(p->inputs[kBackLse], B, H, T) && has_shape(p->outputs[0], B, T, H, D);
    for (int i = 1; i < 3; ++i) fits &= has_shape(p->outputs[i], B, T, K, D);
  }
  return fits ? kl::ok() : kl::unsupported("packed f32: [B,T,H,D], [B,T,K,D] and lse [B,H,T]");
}

// Rows of an odd number of cache lines: those read together share no place in a cache.
int64_t padded(int64_t n) { return (up(n, 16) / 16 | 1) * 16; }

// Floats of each part of a thread's scratch; all are multiples of 16, so every row is aligned.
struct Sizes {
  int64_t row, strip_row;              // of a padded row of D, of a strip
  int64_t block, strip, keys, panels;  // of a block of queries, its strip, all keys, transposed
  explicit Sizes(const Plan& p)
      : row(padded(p.D)),
        strip_row(padded(p.T + 2 * kLanes)),
        block(kBlock * row),
        strip(kBlock * strip_row),
        keys(up(p.T, kLanes) * row),
        panels(up(p.T, kPanel) * up(p.D, 16)) {}
  int64_t thread(int32_t operation) const {
    const int64_t forward = panels + keys + strip + 2 * block;
    return forward + (operation == KL_FORWARD ? 0 : panels + 2 * keys + strip + block);
  }
};
size_t scratch_bytes(const kl_problem* p) {
  const Plan plan = plan_of(p);
  return static_cast<size_t>(plan.threads * Sizes(plan).thread(plan.operation)) * sizeof(float);
}
size_t saved_bytes(const kl_problem*) { return 0; }  // backward is given o and lse

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p));
  return kl::ok();
}

// A matrix whose element (i, k) is at[i * row + k * step].
struct Left {
  const float* at;
  int64_t row, step;
};

// c (+)= a b, where c is kRows by some vectors and stays in registers.
template <int vectors>
void multiply_tile(Left a, const float* b, int64_t b_row, float* c, int64_t c_row, int64_t depth,
                   bool add) {
  Lanes sum[kRows][vectors];  // wholly unrolled, lest it lives in memory
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v)
      sum[r][v] = add ? kl::load(c + r * c_row + v * kLanes) : Lanes{};
  for (; depth > 0; --depth, b += b_row, a.at += a.step) {
    Lanes right[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) right[v] = kl::load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Lanes left = kl::lanes(a.at[r * a.row]);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) kl::store(c + r * c_row + v * kLanes, sum[r][v]);
}
void multiply(Left a, const float* b, int64_t b_row, float* c, int64_t c_row, int64_t columns,
              int64_t depth, bool add) {
  if (columns > 2 * kLanes) return multiply_tile<kTile>(a, b, b_row, c, c_row, depth, add);
  if (columns > kLanes) return multiply_tile<2>(a, b, b_row, c, c_row, depth, add);
  multiply_tile<1>(a, b, b_row, c, c_row, depth, add);
}

// Two vectors to one, lane by lane in turn: their lower halves, their upper halves.
#if defined(__AVX512F__)
inline Lanes lower(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Lanes upper(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}
#elif defined(__AVX__)
inline Lanes lower(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
inline Lanes upper(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
#else
inline Lanes lower(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline Lanes upper(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
#endif

// x[kLanes, kLanes] turned: after log2(kLanes) rounds of dealing rows i and i + kLanes/2 in turn.
inline void turn(const float* x, int64_t x_row, float* to, int64_t to_row) {
  Lanes rows[kLanes], dealt[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = kl::load(x + i * x_row);
  for (int round = 1; round < kLanes; round *= 2) {
    for (int i = 0; i < kLanes / 2; ++i) {
      dealt[2 * i] = lower(rows[i], rows[i + kLanes / 2]);
      dealt[2 * i + 1] = upper(rows[i], rows[i + kLanes / 2]);
    }
    for (int i = 0; i < kLanes; ++i) rows[i] = dealt[i];
  }
  for (int i = 0; i < kLanes; ++i) kl::store(to + i * to_row, rows[i]);
}

// Asks for a row that is soon read (or written): rows of one head are too short and too far apart
// for the processor to foresee.
template <int for_writing>
inline void ask_for(const float* row, int64_t D) {
  for (int64_t d = 0; d < D; d += 16) __builtin_prefetch(row + d, for_writing);
}

// x[T, D] to panels[T / kPanel][D][kPanel], filled up with zeros.
void to_panels(const float* x, int64_t x_row, int64_t T, int64_t D, float* panels) {
  for (int64_t t = 0; t < up(T, kPanel); t += kLanes) {
    float* to = panels + down(t, kPanel) * D + t % kPanel;
    const int64_t keys = std::clamp<int64_t>(T - t, 0, kLanes);
    for (int64_t i = t + kLanes; i < std::min(T, t + 2 * kLanes); ++i) ask_for<0>(x + i * x_row, D);
    int64_t d = 0;
    for (; keys == kLanes && d + kLanes <= D; d += kLanes)
      turn(x + t * x_row + d, x_row, to + d * kPanel, kPanel);
    for (; d < D; ++d)
      for (int64_t i = 0; i < kLanes; ++i)
        to[d * kPanel + i] = i < keys ? x[(t + i) * x_row + d] : 0.0f;
  }
}

// Rows of D times a factor, into scratch: `total` rows, filled up with zeros.
void copy_in(const float* x, int64_t x_row, int64_t rows, int64_t D, float* to, int64_t to_row,
             int64_t total, float factor = 1) {
  for (int64_t i = 0; i < total; ++i, x += x_row, to += to_row) {
    const int64_t some = i < rows ? D : 0;
    if (i + kAhead < rows) ask_for<0>(x + kAhead * x_row, D);
    for (int64_t d = 0; d < some; ++d) to[d] = x[d] * factor;
    std::fill(to + some, to + to_row, 0.0f);
  }
}
void copy_out(const float* x, int64_t x_row, int64_t rows, int64_t D, float* to, int64_t to_row,
              float factor) {
  for (int64_t i = 0; i < rows; ++i, x += x_row, to += to_row) {
    if (i + kAhead < rows) ask_for<1>(to + kAhead * to_row, D);
    for (int64_t d = 0; d < D; ++d) to[d] = x[d] * factor;
  }
}

// A block of queries and the strip of keys that they see: query i sees keys first(i) … i. The rows
// of a tile are worked on together, over whole vectors of keys, and past T over zeros.
struct Block {
  int64_t begin, end, window;
  int64_t strip_begin, strip_row;  // a whole number of vectors, floats
  Block(int64_t begin_, int64_t T, int64_t window_, int64_t strip_row_)
      : begin(begin_),
        end(std::min(T, begin_ + kBlock)),
        window(window_),
        strip_begin(down(first(begin_), kLanes)),
        strip_row(strip_row_) {}
  int64_t first(int64_t i) const { return std::max<int64_t>(0, i - window); }
  int64_t keys_begin(int64_t tile) const { return down(first(tile), kLanes); }
  int64_t keys_end(int64_t tile) const { return up(tile + kRows, kLanes); }
  int64_t at(int64_t row, int64_t key) const {
    return (row - begin) * strip_row + key - strip_begin;
  }
};

// strip = x · panels, where a query of the tile sees a key; x is the block's rows.
void scores_of(const Block& block, const float* x, int64_t row, const float* panels, int64_t D,
               float* strip) {
  for (int64_t p = down(block.strip_begin, kPanel); p < block.end; p += kPanel)
    for (int64_t i = block.begin; i < block.end; i += kRows) {
      const int64_t from = std::max(p, block.keys_begin(i));
      const int64_t to = std::min(p + kPanel, block.keys_end(i));
      if (from < to)
        multiply({x + (i - block.begin) * row, row, 1}, panels + p * D + from - p, kPanel,
                 strip + block.at(i, from), block.strip_row, to - from, D, false);
    }
}

// y[rows of the block] = strip · x[all keys]
void times_keys(const Block& block, const float* strip, const float* x, int64_t row, int64_t D,
                float* y) {
  for (int64_t d = 0; d < D; d += kPanel)
    for (int64_t i = block.begin; i < block.end; i += kRows) {
      const int64_t from = block.first(i), to = std::min(i + kRows, block.end);
      multiply({strip + block.at(i, from), block.strip_row, 1}, x + from * row + d, row,
               y + (i - block.begin) * row + d, row, std::min(kPanel, D - d), to - from, false);
    }
}

// y[all keys] += stripᵀ · x[rows of the block]
void times_queries(const Block& block, const float* strip, const float* x, int64_t row, int64_t D,
                   float* y) {
  for (int64_t d = 0; d < D; d += kPanel)
    for (int64_t j = down(block.first(block.begin), kRows); j < block.end; j += kRows) {
      const int64_t from = std::max(block.begin, j);
      const int64_t to = std::min(block.end, j + kRows + block.window);
      multiply({strip + block.at(from, j), 1, block.strip_row}, x + (from - block.begin) * row + d,
               row, y + j * row + d, row, std::min(kPanel, D - d), to - from, true);
    }
}

// The keys of its tile that query i does not see; all of them past the block's end.
void fill_unseen(const Block& block, int64_t i, float* strip, float value) {
  const int64_t tile = down(i - block.begin, kRows) + block.begin;
  std::fill(strip + block.at(i, block.keys_begin(tile)), strip + block.at(i, block.first(i)),
            value);
  std::fill(strip + block.at(i, i + 1), strip + block.at(i, block.keys_end(tile)), value);
}

// The largest lane, halves held against each other until one is left.
float largest_of(Lanes v) {
  float a[kLanes];
  kl::store(a, v);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) a[l] = std::max(a[l], a[l + half]);
  return a[0];
}

// Scores of a query to exp(score - largest); their largest and their sum.
struct Softmax {
  float largest, sum;
};
Softmax softmax_row(float* row, int64_t size) {
  Lanes tops = kl::load(row);
  for (int64_t j = kLanes; j < size; j += kLanes) tops = kl::at_least(kl::load(row + j), tops);
  const float top = largest_of(tops);
  Lanes sums{};
  for (int64_t j = 0; j < size; j += kLanes) {
    const Lanes e = kl::exp_of_negative(kl::load(row + j) - kl::lanes(top));
    sums += e;
    kl::store(row + j, e);
  }
  return {top, kl::sum_of(sums)};
}

// A query's scores to P, its dP to P * (dP - delta).
void gradient_row(float* scores, float* dp, int64_t size, float shift, float delta) {
  for (int64_t j = 0; j < size; j += kLanes) {
    const Lanes p = kl::exp_of_negative(kl::load(scores + j) - kl::lanes(shift));
    kl::store(scores + j, p);
    kl::store(dp + j, p * (kl::load(dp + j) - kl::lanes(delta)));
  }
}

float dot(const float* a, const float* b, int64_t size) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t d = 0; d < size; ++d) sum += a[d] * b[d];
  return sum;
}

void forward_head(const Plan& p, const kl_call* call, int64_t b, int64_t kv, float* scratch) {
  const Sizes sizes(p);
  const int64_t q_row = p.H * p.D, k_row = p.K * p.D, group = p.H / p.K, row = sizes.row;
  const int64_t k_at = b * p.T * k_row + kv * p.D;
  const auto window = static_cast<int64_t>(std::min(call->scalars[0], static_cast<double>(p.T)));
  const auto scale = static_cast<float>(call->scalars[1]);
  float* k_panels = scratch;
  float* v = k_panels + sizes.panels;
  float* strip = v + sizes.keys;
  float* q = strip + sizes.strip;
  float* result = q + sizes.block;
  to_panels(kl::data<const float>(call->inputs[1]) + k_at, k_row, p.T, p.D, k_panels);
  copy_in(kl::data<const float>(call->inputs[2]) + k_at, k_row, p.T, p.D, v, row, p.T);
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const int64_t at = b * p.T * q_row + h * p.D;
    float* o = kl::data<float>(call->outputs[0]) + at;
    float* lse = kl::data<float>(call->outputs[1]) + (b * p.H + h) * p.T;
    for (int64_t i0 = 0; i0 < p.T; i0 += kBlock) {
      const Block block(i0, p.T, window, sizes.strip_row);
      copy_in(kl::data<const float>(call->inputs[0]) + at + i0 * q_row, q_row, block.end - i0, p.D,
              q, row, kBlock, scale);
      scores_of(block, q, row, k_panels, p.D, strip);
      float sums[kBlock];
      for (int64_t i = i0; i < block.end; ++i) {
        fill_unseen(block, i, strip, -std::numeric_limits<float>::infinity());
        const int64_t tile = down(i - i0, kRows) + i0, from = block.keys_begin(tile);
        const Softmax softmax = softmax_row(strip + block.at(i, from), block.keys_end(tile) - from);
        sums[i - i0] = softmax.sum;
        lse[i] = static_cast<float>(softmax.largest + std::log(double{softmax.sum}));
      }
      times_keys(block, strip, v, row, p.D, result);
      for (int64_t i = i0; i < block.end; ++i)
        copy_out(result + (i - i0) * row, row, 1, p.D, o + i * q_row, q_row, 1 / sums[i - i0]);
    }
  }
}

void backward_head(const Plan& p, const kl_call* call, int64_t b, int64_t kv, float* scratch) {
  const Sizes sizes(p);
  const int64_t q_row = p.H * p.D, k_row = p.K * p.D, group = p.H / p.K, row = sizes.row;
  const int64_t k_at = b * p.T * k_row + kv * p.D;
  const auto window = static_cast<int64_t>(std::min(call->scalars[0], static_cast<double>(p.T)));
  const auto scale = static_cast<float>(call->scalars[1]);
  float* k_panels = scratch;
  float* k = k_panels + sizes.panels;
  float* scores = k + sizes.keys;
  float* q = scores + sizes.strip;
  float* dq = q + sizes.block;
  float* v_panels = dq + sizes.block;
  float* dk = v_panels + sizes.panels;
  float* dv = dk + sizes.keys;
  float* dp = dv + sizes.keys;
  float* d_o = dp + sizes.strip;
  const float* k_in = kl::data<const float>(call->inputs[kBackQ + 1]) + k_at;
  to_panels(k_in, k_row, p.T, p.D, k_panels);
  to_panels(kl::data<const float>(call->inputs[kBackQ + 2]) + k_at, k_row, p.T, p.D, v_panels);
  copy_in(k_in, k_row, p.T, p.D, k, row, p.T);
  std::fill(dk, dk + sizes.keys, 0.0f);
  std::fill(dv, dv + sizes.keys, 0.0f);
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const int64_t at = b * p.T * q_row + h * p.D;
    const float* o = kl::data<const float>(call->inputs[kBackO]) + at;
    const float* lse = kl::data<const float>(call->inputs[kBackLse]) + (b * p.H + h) * p.T;
    for (int64_t i0 = 0; i0 < p.T; i0 += kBlock) {
      const Block block(i0, p.T, window, sizes.strip_row);
      const int64_t rows = block.end - i0;
      copy_in(kl::data<const float>(call->inputs[kBackQ]) + at + i0 * q_row, q_row, rows, p.D, q,
              row, kBlock, scale);
      copy_in(kl::data<const float>(call->inputs[kDo]) + at + i0 * q_row, q_row, rows, p.D, d_o,
              row, kBlock);
      scores_of(block, q, row, k_panels, p.D, scores);
      scores_of(block, d_o, row, v_panels, p.D, dp);
      for (int64_t i = i0; i < block.end; ++i) {
        const int64_t tile = down(i - i0, kRows) + i0, from = block.keys_begin(tile);
        if (i + kAhead < block.end) ask_for<0>(o + (i + kAhead) * q_row, p.D);
        const float delta = dot(d_o + (i - i0) * row, o + i * q_row, p.D);
        gradient_row(scores + block.at(i, from), dp + block.at(i, from),
                     block.keys_end(tile) - from, lse[i], delta);
        fill_unseen(block, i, scores, 0);
        fill_unseen(block, i, dp, 0);
      }
      times_queries(block, scores, d_o, row, p.D, dv);
      times_queries(block, dp, q, row, p.D, dk);
      times_keys(block, dp, k, row, p.D, dq);
      // dS holds no scale yet; dk has it from q.
      copy_out(dq, row, rows, p.D, kl::data<float>(call->outputs[0]) + at + i0 * q_row, q_row,
               scale);
    }
  }
  copy_out(dk, row, p.T, p.D, kl::data<float>(call->outputs[1]) + k_at, k_row, 1);
  copy_out(dv, row, p.T, p.D, kl::data<float>(call->outputs[2]) + k_at, k_row, 1);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  auto* scratch = static_cast<float*>(call->scratch);
  const int64_t each = Sizes(p).thread(p.operation);
  const auto head = p.operation == KL_FORWARD ? forward_head : backward_head;
  if (p.threads == 1) {
    for (int64_t n = 0; n < p.B * p.K; ++n) head(p, call, n / p.K, n % p.K, scratch);
    return kl::ok();
  }
#pragma omp parallel for schedule(static) num_threads(p.threads)
  for (int64_t n = 0; n < p.B * p.K; ++n)
    head(p, call, n / p.K, n % p.K, scratch + omp_get_thread_num() * each);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("flash_attention", accepts, scratch_bytes, saved_bytes, prepare, run);
