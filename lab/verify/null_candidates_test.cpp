#include <lab/build/builder.hpp>
#include <lab/core/files.hpp>
#include <lab/verify/case_queue.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

constexpr const char* kSum = "call.in(0, i) + call.in(1, i)";

// y is an expression of the inputs a and b.
class NullCandidates : public testing::Test {
 protected:
  void make(const std::string& y, double bound_c) {
    const fs::path folder = folder_.path() / "sum";
    ASSERT_TRUE(make_directories(folder).ok());
    ASSERT_TRUE(write_file_atomic(folder / "spec.toml", R"(key = "sum"
title = "sum"
row_axis = "N"
[[operation]]
name = "forward"
inputs = [{ name = "a", axes = ["N", "C"] }, { name = "b", axes = ["N", "C"] }]
outputs = [{ name = "y", axes = ["N", "C"], terms = "1" }]
[cases]
quick = [{ N = 3, C = 5 }]
)")
                    .ok());
    ASSERT_TRUE(write_file_atomic(folder / "oracle.cpp", R"(#include <kernel_lab/oracle.hpp>
namespace {
template <class R>
int evaluate(const kl::oracle::CallTable& table, const kl::oracle::Call<R>& call) {
  for (int64_t i = 0; i < table.inputs[0].size(); ++i)
    call.out(0, i, )" + y + R"();
  return 0;
}
int no_cost(const kl_problem&, kl::oracle::Cost&) { return 0; }
}
KL_EXPORT_ORACLE("sum", evaluate, no_cost);
)")
                    .ok());
    target_ = read_target(folder).value();
    target_.bound_c = bound_c;
    const Builder builder(*find_engine("cpu").value(), folder_.path() / "cache");
    oracle_.emplace(
        OracleLibrary::load(builder.build_oracle(target_.oracle()).value().path, "sum").value());
    plan_ = plan_cases(target_, {}, false);
  }
  // The first case of the plan, audited.
  Result<PreparedCase> first() { return CaseQueue(*oracle_, target_, plan_, 3, 1).next(); }

  TemporaryFolder folder_ = TemporaryFolder::create("kernel-lab-null").value();
  Target target_;
  std::optional<OracleLibrary> oracle_;
  CasePlan plan_;
};

TEST_F(NullCandidates, ACaseThatCanTellIsAccepted) {
  make(kSum, 1);
  const auto prepared = first();
  ASSERT_TRUE(prepared.ok()) << prepared.error().what;
  EXPECT_EQ(prepared->data.expected[0][0].values.size(), 15u);
}

TEST_F(NullCandidates, ABoundThatZerosPassIsRefusedWithCaseAndOutput) {
  make(kSum, 1e9);
  const auto prepared = first();
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().status, Status::unsupported_target);
  EXPECT_NE(prepared.error().what.find("zeros passes as y"), std::string::npos)
      << prepared.error().what;
  EXPECT_NE(prepared.error().what.find("list C=5 N=3"), std::string::npos) << prepared.error().what;
}

TEST_F(NullCandidates, AnOutputThatIsItsInputIsRefused) {
  make("call.in(0, i)", 1);
  const auto prepared = first();
  ASSERT_FALSE(prepared.ok());
  EXPECT_NE(prepared.error().what.find("a copy of a passes"), std::string::npos)
      << prepared.error().what;
}

TEST_F(NullCandidates, AnInputThatMovesNothingIsRefused) {
  make("R(2.0) * call.in(0, i) + R(1e-12) * call.in(1, i)", 1);
  const auto prepared = first();
  ASSERT_FALSE(prepared.ok());
  EXPECT_NE(prepared.error().what.find("changing input b"), std::string::npos)
      << prepared.error().what;
}

TEST_F(NullCandidates, TheSameSeedPreparesTheSameCase) {
  make(kSum, 1);
  const auto once = first(), again = first();
  EXPECT_EQ(once->data.operations[0].inputs[0].bytes, again->data.operations[0].inputs[0].bytes);
  EXPECT_EQ(once->data.expected[0][0].values, again->data.expected[0][0].values);
}

}  // namespace
}  // namespace kl
