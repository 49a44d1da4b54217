// The optimiser's step for CPUs.
//   adamw   one pass over g, p, m and v
//   muon    a matrix a thread where there are enough of them, else one after the other with
//   products
//           on all threads; a tall matrix is not transposed, its products are
#include <kernel_lab/kernel.hpp>

#include <omp.h>
#include <algorithm>
#include <cmath>

namespace {

enum { kAdamW = 0, kMuon = 1 };

constexpr int64_t kElementsPerThread = 64 * 1024;  // fewer are not worth waking a thread for
constexpr int64_t kPanelRows = 64;                 // of a symmetric matrix; fewer cost more packing

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t stack, rows, columns;  // adamw: 1, 1, N
  bool is_wide() const { return rows < columns; }
  decltype(kl_services::sgemm) sgemm;
};

bool is_packed(const DLTensor& t, int32_t ndim) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == ndim;
}
bool same_shape(const DLTensor& a, const DLTensor& b) {
  return a.ndim == b.ndim && std::equal(a.shape, a.shape + a.ndim, b.shape);
}

kl_result accepts(const kl_problem* p) {
  if (p->operation != kAdamW && p->operation != kMuon)
    return kl::unsupported("operation is not optimizer_update's");
  const bool muon = p->operation == kMuon;
  if (p->input_count != 2 || p->output_count != 3)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& g = p->inputs[0];
  if (!is_packed(g, muon ? 3 : 1)) return kl::unsupported("g: packed f32 [N] or [S,R,C]");
  if (!is_packed(p->inputs[1], 1) || p->inputs[1].shape[0] != (muon ? 4 : 7))
    return kl::bad_argument("hyper: f32 [7], muon_hyper: f32 [4]");
  for (int i = 0; i < (muon ? 2 : 3); ++i)
    if (!is_packed(p->outputs[i], g.ndim) || !same_shape(p->outputs[i], g))
      return kl::unsupported("p, m, v, momentum: packed f32 of g's shape");
  if (!muon) return kl::ok();
  const DLTensor& second = p->outputs[2];
  if (!is_packed(second, 2) || second.shape[0] != g.shape[0] ||
      second.shape[1] != std::max(g.shape[1], g.shape[2]))
    return kl::unsupported("second_moment: packed f32 [S,max(R,C)]");
  return kl::ok();
}

Plan plan_of(const kl_problem* p, decltype(kl_services::sgemm) sgemm) {
  const int64_t* shape = p->inputs[0].shape;
  if (p->operation == kAdamW) {
    const int64_t worth = std::max<int64_t>(1, shape[0] / kElementsPerThread);
    return {kAdamW, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), 1, 1, shape[0],
            nullptr};
  }
  return {kMuon, shape[0] >= p->threads ? std::max(p->threads, 1) : 1, shape[0], shape[1], shape[2],
          sgemm};
}

// Of one matrix: x and its successor, a square and a polynomial of it, a factor for each line.
int64_t matrix_scratch(const Plan& p) {
  const int64_t width = std::min(p.rows, p.columns), length = std::max(p.rows, p.columns);
  return (2 * p.rows * p.columns + 2 * width * width + length + 15) / 16 * 16;
}

size_t scratch_bytes(const kl_problem* problem) {
  const Plan p = plan_of(problem, nullptr);
  if (p.operation == kAdamW) return 0;
  return static_cast<size_t>(p.threads * matrix_scratch(p)) * sizeof(float);
}

size_t saved_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p, services->sgemm));
  return kl::ok();
}

void adamw(const Plan& plan, const kl_call* call) {
  const float* __restrict g = kl::data<const float>(call->inputs[0]);
  const float* h = kl::data<const float>(call->inputs[1]);
  float* __restrict p = kl::data<float>(call->outputs[0]);
  float* __restrict m = kl::data<float>(call->outputs[1]);
  float* __restrict v = kl::data<float>(call->outputs[2]);
  const float beta1 = h[1], beta2 = h[2], eps = h[3];
  const auto step = static_cast<float>(double{h[0]} / h[5]);
  const auto keep = static_cast<float>(1 - double{h[0]} * h[4]);
  const auto correction = static_cast<float>(1 / std::sqrt(double{h[6]}));
#pragma omp parallel for simd schedule(static) num_threads(plan.threads) if (plan.threads > 1)
  for (int64_t i = 0; i < plan.columns; ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    p[i] = keep * p[i] - step * m[i] / (std::sqrt(v[i]) * correction + eps);
  }
}

struct Polynomial {
  float a, b, c;
};
constexpr Polynomial kSteps[] = {{8.156554524902461f, -22.48329292557795f, 15.878769915207462f},
                                 {4.042929935166739f, -2.808917465908714f, 0.5000178451051316f},
                                 {3.8916678022926607f, -2.772484153217685f, 0.5060648178503393f},
                                 {3.285753657755655f, -2.3681294933425376f, 0.46449024233003106f},
                                 {2.3465413258596377f, -1.7097828382687081f, 0.42323551169305323f}};

// momentum ← mu·momentum + (1-mu)·g and x ← the same mix of momentum and g. Returns Σ x².
double mix(int64_t size, float mu, const float* g, float* momentum, float* x) {
  constexpr int64_t kBlock = 4096;
  double squares = 0;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = begin; i < std::min(size, begin + kBlock); ++i) {
      momentum[i] = mu * momentum[i] + (1 - mu) * g[i];
      x[i] = mu * momentum[i] + (1 - mu) * g[i];
      sum += x[i] * x[i];
    }
    squares += sum;
  }
  return squares;
}

// Calls product(begin, end) for panels of rows [begin, end) of a symmetric matrix, which is to make
// their columns [0, end); what is above the diagonal blocks is then copied.
template <class Product>
kl_result symmetric(int64_t width, float* a, Product product) {
  const int64_t panels = std::max<int64_t>(1, width / kPanelRows);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t begin = width * panel / panels, end = width * (panel + 1) / panels;
    if (const kl_result done = product(begin, end); done.code != KL_OK) return done;
    for (int64_t i = 0; i < begin; ++i)
      for (int64_t j = begin; j < end; ++j) a[i * width + j] = a[j * width + i];
  }
  return kl::ok();
}

// x ← (a + b·A + c·A²)·x with A = x·xᵀ, or x·(…) with A = xᵀ·x where x is tall; five times.
// The result is in x or in `next`.
kl_result orthogonalise(const Plan& p, float*& x, float* next, float* square, float* polynomial) {
  const int64_t R = p.rows, C = p.columns, W = std::min(R, C);
  const bool tall = R > C;
  for (const Polynomial& f : kSteps) {
    kl_result done = symmetric(W, square, [&](int64_t begin, int64_t end) {
      float* to = square + begin * W;
      return tall ? p.sgemm('T', 'N', end - begin, end, R, 1, x + begin, C, x, C, 0, to, W)
                  : p.sgemm('N', 'T', end - begin, end, C, 1, x + begin * C, C, x, C, 0, to, W);
    });
    if (done.code != KL_OK) return done;
    done = symmetric(W, polynomial, [&](int64_t begin, int64_t end) {
      const float* from = square + begin * W;
      float* to = polynomial + begin * W;
      for (int64_t i = 0; i < end - begin; ++i)
        std::copy(from + i * W, from + i * W + end, to + i * W);
      return p.sgemm('N', 'N', end - begin, end, W, f.c, from, W, square, W, f.b, to, W);
    });
    if (done.code != KL_OK) return done;
    for (int64_t i = 0; i < W; ++i) polynomial[i * W + i] += f.a;  // so that x is not read again
    done = tall ? p.sgemm('N', 'N', R, C, C, 1, x, C, polynomial, W, 0, next, C)
                : p.sgemm('N', 'N', R, C, R, 1, polynomial, W, x, C, 0, next, C);
    if (done.code != KL_OK) return done;
    std::swap(x, next);
  }
  return kl::ok();
}

// Σ x² of each row, or of each column of a wide matrix.
void squares_of_lines(const Plan& p, const float* x, float* lines) {
  if (p.is_wide()) std::fill(lines, lines + p.columns, 0.0f);
  for (int64_t r = 0; r < p.rows; ++r, x += p.columns) {
    if (!p.is_wide()) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < p.columns; ++c) sum += x[c] * x[c];
      lines[r] = sum;
    } else {
#pragma omp simd
      for (int64_t c = 0; c < p.columns; ++c) lines[c] += x[c] * x[c];
    }
  }
}

// Second moments of the lines, and in place of their sums of squares each line's factor: the root
// of its moment inverted, times what keeps the norm of the whole.
void scale_lines(int64_t length, int64_t width, float beta2, float* second, float* lines) {
  double before = 0, after = 0;
  for (int64_t j = 0; j < length; ++j) {
    second[j] = beta2 * second[j] + (1 - beta2) * lines[j] / static_cast<float>(width);
    before += lines[j];
    after += double{lines[j]} / std::max(second[j], 1e-10f);
  }
  const double ratio = std::sqrt(before) / std::max(std::sqrt(after), 1e-10);
  for (int64_t j = 0; j < length; ++j)
    lines[j] = static_cast<float>(ratio / std::sqrt(std::max(second[j], 1e-10f)));
}

// Decay only where the update would lower |p| too.
void apply(const Plan& p, const float* x, const float* lines, float rate, float decay, float* w) {
  const bool wide = p.is_wide();
  for (int64_t r = 0; r < p.rows; ++r, x += p.columns, w += p.columns) {
#pragma omp simd
    for (int64_t c = 0; c < p.columns; ++c) {
      const float update = x[c] * (wide ? lines[c] : lines[r]);
      w[c] -= rate * update + (update * w[c] >= 0 ? decay * w[c] : 0.0f);
    }
  }
}

kl_result muon(const Plan& p, const kl_call* call, int64_t s, float* scratch) {
  const float* h = kl::data<const float>(call->inputs[1]);
  const int64_t size = p.rows * p.columns;
  const int64_t width = std::min(p.rows, p.columns), length = std::max(p.rows, p.columns);
  float *x = scratch, *next = x + size, *square = next + size, *polynomial = square + width * width;
  float* lines = polynomial + width * width;
  const double squares = mix(size, h[1], kl::data<const float>(call->inputs[0]) + s * size,
                             kl::data<float>(call->outputs[1]) + s * size, x);
  const auto inverse = static_cast<float>(1 / (1.02 * std::sqrt(squares) + 1e-6));
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) x[i] *= inverse;
  if (const kl_result done = orthogonalise(p, x, next, square, polynomial); done.code != KL_OK)
    return done;
  squares_of_lines(p, x, lines);
  scale_lines(length, width, h[2], kl::data<float>(call->outputs[2]) + s * length, lines);
  const float growth =
      std::sqrt(std::max(1.0f, static_cast<float>(p.rows) / static_cast<float>(p.columns)));
  apply(p, x, lines, growth * h[0], growth * h[0] * h[3],
        kl::data<float>(call->outputs[0]) + s * size);
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.operation == kAdamW) {
    adamw(p, call);
    return kl::ok();
  }
  auto* scratch = static_cast<float*>(call->scratch);
  int32_t code = KL_OK;
  if (p.threads == 1) {
    for (int64_t s = 0; s < p.stack; ++s) code = std::max(code, muon(p, call, s, scratch).code);
  } else {
#pragma omp parallel for schedule(static, 1) num_threads(p.threads) reduction(max : code)
    for (int64_t s = 0; s < p.stack; ++s)
      code =
          std::max(code, muon(p, call, s, scratch + omp_get_thread_num() * matrix_scratch(p)).code);
  }
  return {code, code == KL_OK ? nullptr : "sgemm failed"};
}

}  // namespace

KL_EXPORT_KERNEL("optimizer_update", accepts, scratch_bytes, saved_bytes, prepare, run);
