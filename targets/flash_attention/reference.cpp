// The plain attention: one query after the other, as the formula reads.
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>

namespace {

struct Plan {
  int32_t operation;
  int64_t B, T, H, K, D;
  int64_t q(int64_t b, int64_t t, int64_t h) const { return ((b * T + t) * H + h) * D; }
  int64_t k(int64_t b, int64_t t, int64_t h) const { return ((b * T + t) * K + h / (H / K)) * D; }
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]))
      return kl::unsupported("inputs must be contiguous f32");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be contiguous f32");
  const int q = p->operation == KL_FORWARD ? 0 : 1;
  if (p->inputs[q].ndim != 4 || p->inputs[q + 1].ndim != 4)
    return kl::bad_argument("q, k, v must have four axes");
  const int64_t heads = p->inputs[q].shape[2], key_heads = p->inputs[q + 1].shape[2];
  if (key_heads < 1 || heads % key_heads != 0)
    return kl::bad_argument("heads must be a multiple of the key heads");
  return kl::ok();
}

// Room for the scores of one query.
size_t scratch_bytes(const kl_problem* p) {
  return static_cast<size_t>(p->inputs[0].shape[1]) * sizeof(float);
}
size_t saved_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const int q = p->operation == KL_FORWARD ? 0 : 1;
  const int64_t* shape = p->inputs[q].shape;
  kl::store(plan,
            Plan{p->operation, shape[0], shape[1], shape[2], p->inputs[q + 1].shape[2], shape[3]});
  return kl::ok();
}

double dot(const float* a, const float* b, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += double{a[d]} * b[d];
  return sum;
}

// visit(b, h, i, first): every query with the first key that it sees.
template <class Visit>
void each_query(const Plan& p, double window, Visit visit) {
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t h = 0; h < p.H; ++h)
      for (int64_t i = 0; i < p.T; ++i)
        visit(b, h, i, static_cast<int64_t>(std::max(0.0, static_cast<double>(i) - window)));
}

void forward(const Plan& p, const kl_call* call) {
  const float* q = kl::data<const float>(call->inputs[0]);
  const float* k = kl::data<const float>(call->inputs[1]);
  const float* v = kl::data<const float>(call->inputs[2]);
  float* o = kl::data<float>(call->outputs[0]);
  float* lse = kl::data<float>(call->outputs[1]);
  auto* e = static_cast<float*>(call->scratch);
  each_query(p, call->scalars[0], [&](int64_t b, int64_t h, int64_t i, int64_t first) {
    for (int64_t j = first; j <= i; ++j)
      e[j] = static_cast<float>(call->scalars[1] * dot(q + p.q(b, i, h), k + p.k(b, j, h), p.D));
    const float largest = *std::max_element(e + first, e + i + 1);
    double sum = 0;
    for (int64_t j = first; j <= i; ++j) sum += e[j] = std::exp(e[j] - largest);
    for (int64_t d = 0; d < p.D; ++d) {
      double weighted = 0;
      for (int64_t j = first; j <= i; ++j) weighted += double{e[j]} * v[p.k(b, j, h) + d];
      o[p.q(b, i, h) + d] = static_cast<float>(weighted / sum);
    }
    lse[(b * p.H + h) * p.T + i] = static_cast<float>(largest + std::log(sum));
  });
}

void backward(const Plan& p, const kl_call* call) {
  const float* d_o = kl::data<const float>(call->inputs[0]);
  const float* q = kl::data<const float>(call->inputs[1]);
  const float* k = kl::data<const float>(call->inputs[2]);
  const float* v = kl::data<const float>(call->inputs[3]);
  const float* o = kl::data<const float>(call->inputs[4]);
  const float* lse = kl::data<const float>(call->inputs[5]);
  float* dq = kl::data<float>(call->outputs[0]);
  float* dk = kl::data<float>(call->outputs[1]);
  float* dv = kl::data<float>(call->outputs[2]);
  const auto scale = static_cast<float>(call->scalars[1]);
  std::fill_n(dq, p.B * p.T * p.H * p.D, 0.0f);
  std::fill_n(dk, p.B * p.T * p.K * p.D, 0.0f);
  std::fill_n(dv, p.B * p.T * p.K * p.D, 0.0f);
  each_query(p, call->scalars[0], [&](int64_t b, int64_t h, int64_t i, int64_t first) {
    const int64_t at = p.q(b, i, h);
    const double delta = dot(d_o + at, o + at, p.D);
    for (int64_t j = first; j <= i; ++j) {
      const int64_t key = p.k(b, j, h);
      const double score = scale * dot(q + at, k + key, p.D);
      const auto prob = static_cast<float>(std::exp(score - lse[(b * p.H + h) * p.T + i]));
      const auto ds = static_cast<float>(scale * prob * (dot(d_o + at, v + key, p.D) - delta));
      for (int64_t d = 0; d < p.D; ++d) {
        dq[at + d] += ds * k[key + d];
        dk[key + d] += ds * q[at + d];
        dv[key + d] += prob * d_o[at + d];
      }
    }
  });
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.operation == KL_FORWARD)
    forward(p, call);
  else
    backward(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("flash_attention", accepts, scratch_bytes, saved_bytes, prepare, run);
