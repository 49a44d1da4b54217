// AdamW and Muon as their formulas read: one element, one matrix after the other.
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>

namespace {

enum { kAdamW = 0, kMuon = 1 };

struct Plan {
  int32_t operation;
  int64_t stack, rows, columns;  // adamw: 1, 1, N
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]))
      return kl::unsupported("inputs must be contiguous f32");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be contiguous f32");
  const DLTensor& g = p->inputs[0];
  if (p->operation == kAdamW) return g.ndim == 1 ? kl::ok() : kl::bad_argument("g is [N]");
  if (g.ndim != 3) return kl::bad_argument("g_stack is [S,R,C]");
  if (p->outputs[2].shape[1] != std::max(g.shape[1], g.shape[2]))
    return kl::bad_argument("second_moment is [S,max(R,C)]");
  return kl::ok();
}

// x, its successor, and two squares.
size_t scratch_bytes(const kl_problem* p) {
  if (p->operation == kAdamW) return 0;
  const int64_t rows = p->inputs[0].shape[1], columns = p->inputs[0].shape[2];
  const int64_t width = std::min(rows, columns);
  return static_cast<size_t>(2 * rows * columns + 2 * width * width) * sizeof(float);
}

size_t saved_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const int64_t* shape = p->inputs[0].shape;
  kl::store(plan, p->operation == kAdamW ? Plan{kAdamW, 1, 1, shape[0]}
                                         : Plan{kMuon, shape[0], shape[1], shape[2]});
  return kl::ok();
}

void adamw(int64_t size, const float* g, const float* h, float* p, float* m, float* v) {
  const float rate = h[0], beta1 = h[1], beta2 = h[2], eps = h[3], decay = h[4];
  const float correction1 = h[5], correction2 = h[6];
  for (int64_t i = 0; i < size; ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    const float update = m[i] / correction1 / (std::sqrt(v[i] / correction2) + eps);
    p[i] = p[i] - rate * decay * p[i] - rate * update;
  }
}

// c[m,n] = alpha·a[m,k]·b[k,n] + beta·c; element (i,j) of b is b[i*b_row + j*b_column].
void multiply(int64_t m, int64_t n, int64_t k, float alpha, const float* a, const float* b,
              int64_t b_row, int64_t b_column, float beta, float* c) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += double{a[i * k + l]} * b[l * b_row + j * b_column];
      c[i * n + j] = static_cast<float>(alpha * sum + (beta == 0 ? 0 : beta * c[i * n + j]));
    }
}

constexpr double kSteps[5][3] = {{8.156554524902461, -22.48329292557795, 15.878769915207462},
                                 {4.042929935166739, -2.808917465908714, 0.5000178451051316},
                                 {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
                                 {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
                                 {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};

// One matrix, transposed where it is not wide: x[width,length].
void muon(int64_t rows, int64_t columns, const float* g, const float* h, float* p, float* momentum,
          float* second, float* scratch) {
  const float rate = h[0] * std::sqrt(std::max(1.0f, float(rows) / float(columns)));
  const float mu = h[1], beta2 = h[2], decay = h[3];
  const int64_t size = rows * columns;
  const int64_t width = std::min(rows, columns), length = std::max(rows, columns);
  const auto place = [&](int64_t i) {
    return rows >= columns ? (i % columns) * length + i / columns : i;
  };
  float *x = scratch, *next = x + size, *a = next + size, *b = a + width * width;
  double squares = 0;
  for (int64_t i = 0; i < size; ++i) {
    momentum[i] = mu * momentum[i] + (1 - mu) * g[i];
    const float update = mu * momentum[i] + (1 - mu) * g[i];
    x[place(i)] = update;
    squares += double{update} * update;
  }
  for (int64_t i = 0; i < size; ++i)
    x[i] = static_cast<float>(x[i] / (1.02 * std::sqrt(squares) + 1e-6));
  for (const auto& step : kSteps) {
    multiply(width, width, length, 1, x, x, 1, length, 0, a);
    std::copy(a, a + width * width, b);
    multiply(width, width, width, static_cast<float>(step[2]), a, a, width, 1,
             static_cast<float>(step[1]), b);
    std::copy(x, x + size, next);
    multiply(width, length, width, 1, b, x, length, 1, static_cast<float>(step[0]), next);
    std::swap(x, next);
  }
  double before = 0, after = 0;
  for (int64_t j = 0; j < length; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += double{x[i * length + j]} * x[i * length + j];
    second[j] = static_cast<float>(beta2 * second[j] + (1 - beta2) * sum / double(width));
    before += sum;
    after += sum / std::max(second[j], 1e-10f);
  }
  const double ratio = std::sqrt(before) / std::max(std::sqrt(after), 1e-10);
  for (int64_t i = 0; i < size; ++i) {
    const double scale = ratio / std::sqrt(std::max(second[place(i) % length], 1e-10f));
    const auto update = static_cast<float>(x[place(i)] * scale);
    p[i] -= rate * update + (update * p[i] >= 0 ? rate * decay * p[i] : 0);
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& q = kl::plan_as<Plan>(plan);
  const float* g = kl::data<const float>(call->inputs[0]);
  const float* hyper = kl::data<const float>(call->inputs[1]);
  float* outputs[3];
  for (int i = 0; i < 3; ++i) outputs[i] = kl::data<float>(call->outputs[i]);
  if (q.operation == kAdamW) {
    adamw(q.columns, g, hyper, outputs[0], outputs[1], outputs[2]);
    return kl::ok();
  }
  const int64_t size = q.rows * q.columns, length = std::max(q.rows, q.columns);
  for (int64_t s = 0; s < q.stack; ++s)
    muon(q.rows, q.columns, g + s * size, hyper, outputs[0] + s * size, outputs[1] + s * size,
         outputs[2] + s * length, static_cast<float*>(call->scratch));
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("optimizer_update", accepts, scratch_bytes, saved_bytes, prepare, run);
