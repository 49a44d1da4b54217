// Lookup of value embeddings for CPUs.
//   forward   rows copied, tokens shared among threads
//   backward  columns shared among threads: each adds its columns of every token, in the order of
//             tokens, so that nothing is atomic and the bits never depend on the threads
// Rows of the table lie anywhere in memory: those of the next tokens are asked for ahead.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cstring>

namespace {

using kl::kLanes;

constexpr int64_t kElementsPerThread = 128 * 1024;  // fewer are not worth waking a thread for
constexpr int64_t kAhead = 4;                       // tokens
constexpr int64_t kCacheLine = 64 / sizeof(float);

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t tokens, width;
};

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not ve_lookup_reshape's");
  if (p->input_count != 2 || p->output_count != 1)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& tokens = p->inputs[forward ? 0 : 1];
  const DLTensor& table = forward ? p->inputs[1] : p->outputs[0];
  const DLTensor& heads = forward ? p->outputs[0] : p->inputs[0];
  if (tokens.ndim != 2 || table.ndim != 3 || heads.ndim != 4)
    return kl::bad_argument("tokens must be [B,T], the table [V,H,D], heads [B,T,H,D]");
  if (heads.shape[0] != tokens.shape[0] || heads.shape[1] != tokens.shape[1] ||
      heads.shape[2] != table.shape[1] || heads.shape[3] != table.shape[2])
    return kl::bad_argument("tokens, table and heads do not agree in B, T, H or D");
  if (!kl::is_i32(tokens) || !kl::is_f32(table) || !kl::is_f32(heads) ||
      !kl::is_contiguous(tokens) || !kl::is_contiguous(table) || !kl::is_contiguous(heads))
    return kl::unsupported("packed: tokens i32, table and heads f32");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t* shape = (p->operation == KL_FORWARD ? p->outputs[0] : p->inputs[0]).shape;
  const int64_t tokens = shape[0] * shape[1], width = shape[2] * shape[3];
  int64_t worth = std::max<int64_t>(1, tokens * width / kElementsPerThread);
  if (p->operation == KL_BACKWARD) worth = std::min(worth, (width + kCacheLine - 1) / kCacheLine);
  kl::store(
      plan,
      Plan{p->operation,
           static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, std::max<int64_t>(1, worth))),
           tokens, width});
  return kl::ok();
}

void ask_for(const float* row, int64_t width) {
  for (int64_t c = 0; c < width; c += kCacheLine) __builtin_prefetch(row + c);
}

void look_up(const Plan& p, const kl_call* call, int64_t begin, int64_t end) {
  const int32_t* tokens = kl::data<const int32_t>(call->inputs[0]);
  const float* table = kl::data<const float>(call->inputs[1]);
  float* heads = kl::data<float>(call->outputs[0]);
  for (int64_t n = begin; n < end; ++n) {
    if (n + kAhead < end) ask_for(table + tokens[n + kAhead] * p.width, p.width);
    std::memcpy(heads + n * p.width, table + tokens[n] * p.width,
                static_cast<size_t>(p.width) * sizeof(float));
  }
}

void add_columns(const Plan& p, const kl_call* call, int64_t begin, int64_t end) {
  const float* heads = kl::data<const float>(call->inputs[0]) + begin;
  const int32_t* tokens = kl::data<const int32_t>(call->inputs[1]);
  float* table = kl::data<float>(call->outputs[0]) + begin;
  const int64_t size = end - begin;
  for (int64_t n = 0; n < p.tokens; ++n) {
    if (n + kAhead < p.tokens) ask_for(table + tokens[n + kAhead] * p.width, size);
    float* to = table + tokens[n] * p.width;
    const float* from = heads + n * p.width;
    int64_t c = 0;
    for (; c + kLanes <= size; c += kLanes)
      kl::store(to + c, kl::load(to + c) + kl::load(from + c));
    for (; c < size; ++c) to[c] += from[c];
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool forward = p.operation == KL_FORWARD;
  const auto part = [&](int64_t slot) {
    if (forward)
      return look_up(p, call, p.tokens * slot / p.threads, p.tokens * (slot + 1) / p.threads);
    const int64_t lines = (p.width + kCacheLine - 1) / kCacheLine;
    const auto column = [&](int64_t s) {
      return std::min(p.width, lines * s / p.threads * kCacheLine);
    };
    add_columns(p, call, column(slot), column(slot + 1));
  };
  if (p.threads == 1) {
    part(0);
    return kl::ok();
  }
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
  for (int32_t slot = 0; slot < p.threads; ++slot) part(slot);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("ve_lookup_reshape", accepts, no_bytes, no_bytes, prepare, run);
