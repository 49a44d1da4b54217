// Buffers with gaps between their rows, and cases too large for the oracle: kernels that are wrong
// only there, and honest twins.
#include <lab/core/files.hpp>
#include <lab/verify/verify.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

// Squared ReLU by rows and strides; `BODY` may spoil it.
constexpr std::string_view kStrided = R"(#include <kernel_lab/kernel.hpp>
namespace {
struct Plan { int32_t operation; int64_t rows, columns, in[2], out, step[2], out_step; };
int64_t pitch(const DLTensor& t, int axis) {
  return t.strides ? t.strides[axis] : axis == 0 ? t.shape[1] : 1;
}
kl_result accepts(const kl_problem*) { return kl::ok(); }
size_t no_bytes(const kl_problem*) { return 0; }
kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const DLTensor& a = p->inputs[0];
  const DLTensor& b = p->inputs[p->input_count - 1];
  kl::store(plan, Plan{p->operation, a.shape[0], a.shape[1], {pitch(a, 0), pitch(b, 0)},
                       pitch(p->outputs[0], 0), {pitch(a, 1), pitch(b, 1)}, pitch(p->outputs[0], 1)});
  return kl::ok();
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  Plan p = kl::plan_as<Plan>(plan);
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* h = kl::data<const float>(call->inputs[p.operation]);
  float* out = kl::data<float>(call->outputs[0]);
  /*BEFORE*/
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.columns; ++c) {
      const float x = h[r * p.in[1] + c * p.step[1]];
      const float relu = x < 0 ? 0 : x;
      out[r * p.out + c * p.out_step] =
          p.operation == 0 ? relu * relu : 2 * relu * dy[r * p.in[0] + c * p.step[0]];
    }
  /*AFTER*/
  return kl::ok();
}
}
KL_EXPORT_KERNEL("activation_pointwise", accepts, no_bytes, no_bytes, prepare, run);
)";

class Layouts : public testing::Test {
 protected:
  void SetUp() override {
    target_ = read_target(fs::path(KL_TARGETS) / "activation_pointwise").value();
    target_.quick = {{{{"N", 5}, {"C", 127}}, "f32"}};
  }
  void stride_everything(StrideRule rule) {
    for (OperationSpec& operation : target_.operations)
      for (auto* tensors : {&operation.inputs, &operation.outputs})
        for (TensorSpec& tensor : *tensors) tensor.strides = rule;
  }
  VerifyRecord verified(const std::string& before, const std::string& after = "") {
    std::string text(kStrided);
    text.replace(text.find("/*BEFORE*/"), 10, before);
    text.replace(text.find("/*AFTER*/"), 9, after);
    const fs::path source = folder_.path() / "kernel.cpp";
    EXPECT_TRUE(write_file_atomic(source, text).ok());
    const Engine* engine = find_engine("cpu").value();
    VerifyRequest request;
    request.engine = engine;
    request.target = &target_;
    request.kernel = source;
    request.champion = target_.champion(*engine).value();
    request.trainer_shapes = shapes_;
    request.largest_whole_case = largest_;
    request.seed = 20261202;
    return verify(request);
  }
  void large_case() {
    SeamShape shape;
    shape.axes = {{"N", 20011}, {"C", 64}};  // 16384 distinct rows
    shapes_ = {shape};
    largest_ = 100'000;
  }

  TemporaryFolder folder_ = TemporaryFolder::create("kernel-lab-layouts").value();
  Target target_;
  std::vector<SeamShape> shapes_;
  int64_t largest_ = kLargestWholeCase;
};

TEST_F(Layouts, AKernelThatFollowsTheStridesPasses) {
  stride_everything(StrideRule::any);
  const auto record = verified("");
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_FALSE(record.details.contains("declined")) << record.details.dump();
}

TEST_F(Layouts, AKernelThatTakesEveryTensorForPackedIsWrong) {
  stride_everything(StrideRule::rows);
  const auto record = verified("p.in[0] = p.in[1] = p.out = p.columns;");
  EXPECT_EQ(record.status, Status::mismatch) << record.reason;
  EXPECT_NE(record.proof.find("strided"), std::string::npos) << record.proof;
}

TEST_F(Layouts, OnlyADeclaredTensorIsStrided) {
  const auto record = verified("p.in[0] = p.in[1] = p.out = p.columns;");
  EXPECT_EQ(record.status, Status::ok) << record.reason;
}

TEST_F(Layouts, WritingBetweenTheRowsIsAFinding) {
  stride_everything(StrideRule::rows);
  const auto record = verified("", "if (p.out > p.columns) out[p.columns] = 0;");
  EXPECT_EQ(record.status, Status::rejected) << record.reason;
  EXPECT_EQ(record.rule, "writes-gap");
}

TEST_F(Layouts, WhatIsReadBetweenTheRowsMustNotMatter) {
  stride_everything(StrideRule::rows);
  const auto record = verified("", "out[0] += p.in[1] > p.columns ? 0 * h[p.columns] : 0;");
  EXPECT_EQ(record.status, Status::mismatch) << record.reason;
}

TEST_F(Layouts, AKernelMayDeclineStridesAndTheRecordSaysSo) {
  stride_everything(StrideRule::rows);
  const Engine* engine = find_engine("cpu").value();
  VerifyRequest request;
  request.engine = engine;
  request.target = &target_;
  request.kernel = request.champion = target_.champion(*engine).value();
  const auto record = verify(request);
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_NE(record.details.dump().find("strided"), std::string::npos) << record.details.dump();
}

TEST_F(Layouts, EveryElementOfALargeCaseIsJudged) {
  large_case();
  const auto record = verified("");
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_GT(record.elements_checked, 2 * 20011 * 64 * 8);
}

TEST_F(Layouts, OneWrongRowInTheMiddleOfALargeCaseIsFound) {
  large_case();
  const auto record = verified("", "if (p.rows > 20000) out[13457 * p.out + 5] += 1;");
  EXPECT_EQ(record.status, Status::mismatch) << record.reason;
  ASSERT_TRUE(record.failing.has_value());
  EXPECT_EQ(record.failing->index, (std::vector<int64_t>{13457, 5}));
}

TEST_F(Layouts, ARowOfALargeCaseThatIsSkippedIsFound) {
  large_case();
  const auto record = verified("if (p.rows > 20000) --p.rows;");
  EXPECT_EQ(record.status, Status::mismatch) << record.reason;
  EXPECT_EQ(record.rule, "unwritten-output");
  EXPECT_EQ(record.failing.value().index.at(0), 20010);
}

TEST_F(Layouts, RowsInAnotherOrderAreFound) {
  large_case();
  const auto record = verified(
      "", "if (p.rows > 20000) for (int c = 0; c < 64; ++c) out[700 * 64 + c] = out[900 * 64 + c];");
  EXPECT_EQ(record.status, Status::mismatch) << record.reason;
}

TEST_F(Layouts, AnInputOfALargeCaseMayNotBeWritten) {
  large_case();
  const auto record = verified("");
  EXPECT_EQ(record.status, Status::ok);
  const auto writes = verified("", "if (p.rows > 20000) const_cast<float*>(h)[77] = 1;");
  EXPECT_NE(writes.status, Status::ok);
}

}  // namespace
}  // namespace kl
