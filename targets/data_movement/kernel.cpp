// Packing of heads for CPUs. Where the elements of a head lie together it is runs of bytes, as long
// as the layout allows; else square tiles, so that both sides meet a cache line more than once.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cstring>

namespace {

constexpr int64_t kBytesPerThread = 512 * 1024;      // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache
constexpr int64_t kTile = 32;

struct Plan {
  int32_t threads;
  int16_t element;  // bytes
  bool forward, streamed;
  int64_t B, T, H, D;
  int64_t strides[4];  // of the heads' side, elements
};

bool is_float(const DLTensor& t) { return kl::is_f32(t) || kl::is_bf16(t); }

Plan plan_of(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  const DLTensor& heads = forward ? p->inputs[0] : p->outputs[0];
  const int64_t* s = heads.shape;
  Plan plan{1, static_cast<int16_t>(heads.dtype.bits / 8), forward, false, s[0], s[1], s[2], s[3],
            {}};
  int64_t packed = 1;
  for (int i = 3; i >= 0; --i) {
    plan.strides[i] = heads.strides == nullptr ? packed : heads.strides[i];
    packed *= s[i];
  }
  const int64_t bytes = packed * plan.element;
  plan.threads = static_cast<int32_t>(
      std::clamp<int64_t>(p->threads, 1, std::max<int64_t>(1, bytes / kBytesPerThread)));
  plan.streamed = bytes >= kStreamBytes;
  return plan;
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not data_movement's");
  if (p->input_count != 1 || p->output_count != 1)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& heads = forward ? p->inputs[0] : p->outputs[0];
  const DLTensor& packed = forward ? p->outputs[0] : p->inputs[0];
  if (heads.ndim != 4 || packed.ndim != 3 || packed.shape[0] != heads.shape[0] ||
      packed.shape[1] != heads.shape[1] || packed.shape[2] != heads.shape[2] * heads.shape[3])
    return kl::bad_argument("heads must be [B,T,H,D] and packed [B,T,E] with E = H*D");
  if (!is_float(heads) || !is_float(packed) || heads.dtype.bits != packed.dtype.bits)
    return kl::unsupported("f32 or bf16, the same on both sides");
  if (!kl::is_contiguous(packed)) return kl::unsupported("the packed side must be contiguous");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p));
  return kl::ok();
}

void copy_run(char* to, const char* from, int64_t bytes, bool streamed) {
  if (!streamed || bytes % kl::kLaneBytes != 0 ||
      reinterpret_cast<uintptr_t>(to) % kl::kLaneBytes != 0) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t i = 0; i < bytes; i += kl::kLaneBytes)
    kl::stream(reinterpret_cast<float*>(to + i),
               kl::load(reinterpret_cast<const float*>(from + i)));
}

// Rows [begin, end) of B*T, whose heads lie in runs.
void copy_runs(const Plan& p, char* heads, char* packed, int64_t begin, int64_t end) {
  const bool whole_rows = p.H == 1 || p.strides[2] == p.D;
  const int64_t runs = whole_rows ? 1 : p.H, run = (whole_rows ? p.H : 1) * p.D * p.element;
  for (int64_t n = begin; n < end; ++n)
    for (int64_t h = 0; h < runs; ++h) {
      const int64_t at = n / p.T * p.strides[0] + n % p.T * p.strides[1] + h * p.strides[2];
      char* one = heads + at * p.element;
      char* other = packed + (n * runs + h) * run;
      p.forward ? copy_run(other, one, run, p.streamed) : copy_run(one, other, run, p.streamed);
    }
  if (p.streamed) kl::stream_fence();
}

// The same rows in tiles of times and elements.
template <class E>
void copy_tiles(const Plan& p, E* heads, E* packed, int64_t begin, int64_t end) {
  for (int64_t n0 = begin; n0 < end; n0 += kTile)
    for (int64_t h = 0; h < p.H; ++h)
      for (int64_t d0 = 0; d0 < p.D; d0 += kTile)
        for (int64_t n = n0; n < std::min(end, n0 + kTile); ++n) {
          E* one = heads + n / p.T * p.strides[0] + n % p.T * p.strides[1] + h * p.strides[2];
          E* other = packed + (n * p.H + h) * p.D;
          for (int64_t d = d0; d < std::min(p.D, d0 + kTile); ++d)
            p.forward ? void(other[d] = one[d * p.strides[3]])
                      : void(one[d * p.strides[3]] = other[d]);
        }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  // The side that is read is not written below.
  char* heads = kl::data<char>(p.forward ? call->inputs[0] : call->outputs[0]);
  char* packed = kl::data<char>(p.forward ? call->outputs[0] : call->inputs[0]);
  const auto rows = [&](int64_t begin, int64_t end) {
    if (p.strides[3] == 1 || p.D == 1)
      copy_runs(p, heads, packed, begin, end);
    else if (p.element == 4)
      copy_tiles(p, reinterpret_cast<uint32_t*>(heads), reinterpret_cast<uint32_t*>(packed), begin,
                 end);
    else
      copy_tiles(p, reinterpret_cast<uint16_t*>(heads), reinterpret_cast<uint16_t*>(packed), begin,
                 end);
  };
  const int64_t all = p.B * p.T;
  if (p.threads == 1) {
    rows(0, all);
    return kl::ok();
  }
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
  for (int32_t slot = 0; slot < p.threads; ++slot)
    rows(all * slot / p.threads, all * (slot + 1) / p.threads);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("data_movement", accepts, no_bytes, no_bytes, prepare, run);
