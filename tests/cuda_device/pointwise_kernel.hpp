// Kernels of activation_pointwise in CUDA, written around an honest one, and verify on small shapes.
#pragma once

#include "device_kernel.hpp"

#include <lab/core/installation.hpp>
#include <lab/verify/verify.hpp>

#include <string>
#include <vector>

namespace kl::testing {

// `device`: code of its own; `run`: what happens with `c`, the call with names, on stream s.
struct PointwiseText {
  std::string device;
  std::string run = "pointwise<<<c.blocks, 256, 0, s>>>(c);";
  std::string scratch = "none";  // or "as_input"

  std::string source() const {
    return R"(#include <kernel_lab/kernel.hpp>
namespace {
struct Plan {
  int64_t elements;
  int32_t forward;
};
struct Call {
  const float* dy;
  const float* h;
  float* out;
  float* scratch;
  int64_t n;
  int forward;
  unsigned blocks;
};
__device__ float relu(float h) { return h < 0 ? 0 : h; }
__device__ float element(const Call& c, int64_t i) {
  return c.forward ? relu(c.h[i]) * relu(c.h[i]) : 2 * relu(c.h[i]) * c.dy[i];
}
__device__ int64_t index() { return blockIdx.x * int64_t{blockDim.x} + threadIdx.x; }
__global__ void pointwise(Call c) {
  if (index() < c.n) c.out[index()] = element(c, index());
}
)" + device + R"(
kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i])) return kl::unsupported("packed f32 only");
  return kl::ok();
}
[[maybe_unused]] size_t none(const kl_problem*) { return 0; }
[[maybe_unused]] size_t as_input(const kl_problem* p) { return p->inputs[0].shape[0] * p->inputs[0].shape[1] * sizeof(float); }
kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->inputs[0].shape[0] * p->inputs[0].shape[1], p->operation == KL_FORWARD});
  return kl::ok();
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream stream) {
  const auto& p = kl::plan_as<Plan>(plan);
  const auto s = static_cast<cudaStream_t>(stream);
  const Call c{p.forward ? nullptr : kl::data<const float>(call->inputs[0]),
               kl::data<const float>(call->inputs[p.forward ? 0 : 1]), kl::data<float>(call->outputs[0]),
               static_cast<float*>(call->scratch), p.elements, p.forward,
               static_cast<unsigned>((p.elements + 255) / 256)};
  )" + run + R"(
  return cudaGetLastError() == cudaSuccess ? kl::ok() : kl_result{KL_LAUNCH_FAILED, "the launch failed"};
}
}  // namespace
KL_EXPORT_KERNEL("activation_pointwise", accepts, )" + scratch + R"(, none, prepare, run);
)";
  }
};

inline Target small_pointwise() {
  Target target = read_target(Installation::find().targets / "activation_pointwise").value();
  target.quick = {{{{"N", 3}, {"C", 3}}, "f32"}, {{{"N", 64}, {"C", 129}}, "f32"}};
  return target;
}

// Into the cache that verify builds into.
inline void build_all(const std::vector<PointwiseText>& texts) {
  std::vector<std::string> sources;
  for (const PointwiseText& text : texts) sources.push_back(text.source());
  build_all(sources, Builder(cuda_engine()));
}

inline VerifyRecord verified(const PointwiseText& text) {
  const Target target = small_pointwise();
  VerifyRequest request;
  request.engine = &cuda_engine();
  request.target = &target;
  request.kernel = kernel_file(text.source());
  request.champion = request.kernel;  // the bound alone decides
  request.seed = 20261202;
  return verify(request);
}

}  // namespace kl::testing
