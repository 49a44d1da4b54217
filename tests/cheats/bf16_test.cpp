// Kernels whose tensors are bf16, judged and timed as on a device: exact inputs to the oracle,
// rounding to bf16 allowed and no more.
#include <lab/bench/bench.hpp>
#include <lab/core/files.hpp>
#include <lab/verify/verify.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

// Squared ReLU in f32 between bf16 tensors. ROUND makes a bf16 of a float.
constexpr std::string_view kKernel = R"(#include <kernel_lab/kernel.hpp>
#include <bit>
namespace {
struct Plan { int32_t operation; int64_t elements; bool narrow; };
bool is_bf16(const DLTensor& t) { return t.dtype.code == kDLBfloat && t.dtype.bits == 16; }
kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_contiguous(p->inputs[i])) return kl::unsupported("inputs must be contiguous");
  return kl::ok();
}
size_t no_bytes(const kl_problem*) { return 0; }
kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0] * p->inputs[0].shape[1],
                       is_bf16(p->inputs[0])});
  return kl::ok();
}
float wide(uint16_t v) { return std::bit_cast<float>(uint32_t(v) << 16); }
uint16_t nearest(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if (v != v) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
[[maybe_unused]] uint16_t cut(float v) {
  return v != v ? nearest(v) : uint16_t(std::bit_cast<uint32_t>(v) >> 16);
}
float value(float dy, float h, bool forward) {
  const float relu = h < 0 ? 0 : h;
  return forward ? relu * relu : 2 * relu * dy;
}
template <class T, class Load, class Store>
void work(const Plan& p, const kl_call* call, Load load, Store store) {
  const T* dy = kl::data<const T>(call->inputs[0]);
  const T* h = kl::data<const T>(call->inputs[p.operation]);
  T* out = kl::data<T>(call->outputs[0]);
  for (int64_t i = 0; i < p.elements; ++i)
    out[i] = store(value(load(dy[i]), load(h[i]), p.operation == 0));
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.narrow)
    work<uint16_t>(p, call, wide, ROUND);
  else
    work<float>(p, call, [](float v) { return v; }, [](float v) { return v; });
  return kl::ok();
}
}
KL_EXPORT_KERNEL("activation_pointwise", accepts, no_bytes, no_bytes, prepare, run);
)";

class Bf16 : public testing::Test {
 protected:
  void SetUp() override {
    target_ = read_target(fs::path(KL_TARGETS) / "activation_pointwise").value();
    target_.quick = {{{{"N", 5}, {"C", 127}}, "f32"}, {{{"N", 17}, {"C", 40}}, "f32"}};
    target_.full.clear();
    target_.engine_dtypes["cpu"] = {"f32", "bf16"};
    shape_.axes = {{"N", 64}, {"C", 128}};
    shape_.dtype = "bf16";
  }
  fs::path kernel(const std::string& rounding) {
    std::string text(kKernel);
    text.replace(text.find("ROUND);"), 5, rounding);
    const fs::path source = folder_.path() / (rounding + ".cpp");
    EXPECT_TRUE(write_file_atomic(source, text).ok());
    return source;
  }
  VerifyRecord verified(const std::string& rounding) {
    VerifyRequest request;
    request.engine = find_engine("cpu").value();
    request.target = &target_;
    request.kernel = kernel(rounding);
    request.champion = kernel("nearest");
    request.trainer_shapes = {shape_};
    request.seed = 20261203;
    return verify(request);
  }

  TemporaryFolder folder_ = TemporaryFolder::create("kernel-lab-bf16").value();
  Target target_;
  SeamShape shape_;
};

TEST_F(Bf16, RoundingToNearestPassesInBothElementTypes) {
  const auto record = verified("nearest");
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_GT(record.worst_bound_fraction, 0.5);  // half a unit of bf16 is most of the bound
}

TEST_F(Bf16, CuttingOffInsteadOfRoundingIsBeyondTheBound) {
  const auto record = verified("cut");
  EXPECT_EQ(record.status, Status::mismatch) << record.reason;
  EXPECT_NE(record.proof.find("bf16"), std::string::npos) << record.proof;
}

TEST_F(Bf16, AKernelThatDeclinesAnElementTypeOfItsEngineHasNotShownIt) {
  VerifyRequest request;
  request.engine = find_engine("cpu").value();
  request.target = &target_;
  request.kernel = request.champion = target_.champion(*request.engine).value();
  const auto record = verify(request);
  EXPECT_EQ(record.rule, "declines-every-case") << record.reason;
  EXPECT_NE(record.proof.find("bf16"), std::string::npos) << record.proof;
}

TEST_F(Bf16, TimedCallsAreHeldAgainstTheirOwnInputs) {
  BenchRequest request;
  request.engine = find_engine("cpu").value();
  request.target = &target_;
  request.candidate = request.baseline = kernel("nearest");
  request.shapes = {shape_};
  request.preset = "bf16";
  request.mode = BenchMode::quick;
  request.rule = stats::kBenchQuick;
  request.rule->process_cap_seconds = 0.1;
  const auto honest = bench(request);
  EXPECT_NE(honest.status, Status::rejected) << honest.reason << honest.proof;
  EXPECT_NE(honest.status, Status::error) << honest.reason << honest.proof;
  EXPECT_GT(honest.calls_checked, 20);
  request.candidate = kernel("cut");
  const auto cut = bench(request);
  EXPECT_EQ(cut.rule, "timed-call-wrong") << cut.reason << cut.proof;
}

}  // namespace
}  // namespace kl
