#include <lab/verify/captured.hpp>

#include <lab/core/files.hpp>
#include <lab/core/json.hpp>
#include <lab/core/safetensors.hpp>
#include <lab/verify/case_plan.hpp>
#include <lab/verify/oracle_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kl {
namespace {

using ::testing::HasSubstr;

// y[N] = Σ_C x[N,C] of the row that `pick` names; s is added to.
Target picking_target() {
  Target target;
  target.key = "picking";
  target.dtypes = {"f32"};
  OperationSpec forward;
  forward.name = "forward";
  forward.inputs = {{.name = "x", .axes = {"N", "C"}},
                    {.name = "pick", .axes = {"N"}, .dtype = "i32", .kind = InputKind::index, .index_bound = "N", .ignore = -1}};
  forward.outputs = {{.name = "y", .axes = {"N"}}, {.name = "s", .axes = {"C"}, .mode = OutputMode::accumulate}};
  target.operations = {forward};
  return target;
}

class Captured : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = TemporaryFolder::create("kl-captured").value(); }
  fs::path write(const std::string& name = "a.safetensors", const std::string& target = "picking") {
    std::vector<NamedTensor> tensors = {{"x", {2, 3}, x}, {"pick", {2}, pick}, {"before/forward/s", {3}, s}};
    const fs::path file = folder_->path() / name;
    EXPECT_TRUE(write_safetensors(file, tensors, {{"target", target}, {"shape", shape}}).ok());
    return file;
  }
  void expect_refused(const std::string& what) {
    const auto read = read_captured(write(), picking_target());
    ASSERT_FALSE(read.ok()) << what;
    EXPECT_EQ(read.error().status, Status::usage);
    EXPECT_THAT(read.error().what, HasSubstr(what));
  }
  std::optional<TemporaryFolder> folder_;
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, s = {7, 8, 9};
  std::vector<int32_t> pick = {1, -1};
  std::string shape = R"({"axes":{"N":2,"C":3},"dtype":"f32"})";
};

TEST_F(Captured, a_case_holds_the_files_values_and_draws_what_it_has_not) {
  write();
  const Target target = picking_target();
  const auto calls = read_captured(folder_->path(), target);
  ASSERT_TRUE(calls.ok()) << calls.error().what;
  ASSERT_EQ(calls->size(), 1u);
  const CasePlan plan = plan_cases(target, {}, false, kLargestWholeCase, *calls);
  ASSERT_EQ(plan.groups.size(), 1u);
  const CaseGroup& group = plan.groups[0];
  EXPECT_THAT(case_name(group, group.cases[0]), HasSubstr("captured C=3 N=2 f32 file "));
  const CaseData data = draw_case(target, group, group.cases[0], 1).value();
  EXPECT_EQ(data.operations[0].inputs[0].values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(data.operations[0].inputs[1].values(), (std::vector<double>{1, -1}));
  EXPECT_EQ(data.operations[0].outputs[1].values(), (std::vector<double>{7, 8, 9}));
  EXPECT_TRUE(data.operations[0].outputs[0].bytes.empty());
}

TEST_F(Captured, the_plans_hash_follows_the_values) {
  const Target target = picking_target();
  const auto hash = [&] { return plan_cases(target, {}, false, kLargestWholeCase, read_captured(write(), target).value()).hash(); };
  const std::string before = hash();
  EXPECT_EQ(hash(), before);
  x[0] = 2;
  EXPECT_NE(hash(), before);
}

TEST_F(Captured, of_a_large_shape_the_first_rows_are_taken) {
  Target target = picking_target();
  target.row_axis = "N";
  auto calls = read_captured(write(), target).value();
  CaseGroup group{"captured", {{"N", 1}, {"C", 3}}, "f32", {}, {}, {}};
  group.captured = calls[0].tensors;
  const CaseData data = draw_case(target, group, {Distribution::captured, 0, false}, 1).value();
  EXPECT_EQ(data.operations[0].inputs[0].values(), (std::vector<double>{1, 2, 3}));
}

TEST_F(Captured, what_does_not_fit_the_spec_is_named) {
  pick[0] = 2;
  expect_refused("pick holds the index 2");
  pick[0] = 0;
  x[1] = std::nanf("");
  expect_refused("x holds nan");
  x[1] = 0;
  shape = R"({"axes":{"N":3,"C":2},"dtype":"f32"})";
  expect_refused("before/forward/s is F32 [3], the spec says F32 [2]");
  shape = R"({"axes":{"N":2},"dtype":"f32"})";
  expect_refused("C");
  shape = "{";
  expect_refused("shape");
}

TEST_F(Captured, files_of_other_targets_are_left_alone_and_named_when_there_is_no_other) {
  write("b.safetensors", "rmsnorm");
  EXPECT_TRUE(write_file_atomic(folder_->path() / "notes.txt", "mine").ok());
  auto none = read_captured(folder_->path(), picking_target());
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().what, HasSubstr("tensors of rmsnorm, none of picking"));
  write();
  EXPECT_EQ(read_captured(folder_->path(), picking_target())->size(), 1u);
}

TEST_F(Captured, torn_files_are_refused) {
  const fs::path file = write();
  const std::string whole = read_file(file).value();
  for (size_t length = 0; length < whole.size(); length += 5) {
    ASSERT_TRUE(write_file_atomic(file, whole.substr(0, length)).ok());
    EXPECT_FALSE(read_captured(file, picking_target()).ok()) << length;
  }
  EXPECT_FALSE(read_captured(folder_->path() / "absent.safetensors", picking_target()).ok());
}

}  // namespace
}  // namespace kl
