#include <lab/flow/new_target.hpp>

#include <lab/core/files.hpp>
#include <lab/flow/placeholder.hpp>
#include <lab/flow/signature.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> names(const std::vector<TensorSpec>& tensors) {
  std::vector<std::string> result;
  for (const auto& tensor : tensors) result.push_back(tensor.name);
  return result;
}

TEST(signature, gives_forward_and_the_backward_its_names_imply) {
  const auto operations = operations_of_signature(" y[N, C], m[N]=norm( x[N,C], w[C], eps ) ");
  ASSERT_TRUE(operations.ok()) << operations.error().what;
  const OperationSpec &forward = (*operations)[0], &backward = (*operations)[1];
  EXPECT_THAT(names(forward.inputs), ElementsAre("x", "w"));
  EXPECT_THAT(names(forward.outputs), ElementsAre("y", "m"));
  EXPECT_THAT(names(backward.inputs), ElementsAre("dy", "dm", "x", "w"));
  EXPECT_THAT(names(backward.outputs), ElementsAre("dx", "dw"));
  EXPECT_THAT(backward.outputs[1].axes, ElementsAre("C"));
  ASSERT_EQ(backward.scalars.size(), 1u);
  EXPECT_EQ(backward.scalars[0].name, "eps");
}

TEST(signature, says_the_column_of_what_it_cannot_read) {
  const std::pair<const char*, const char*> wrong[] = {
      {"y[N,C] = f(x[N,C]", "column 18: ')' is missing"},
      {"y[N,C = f(x[N,C])", "column 7: '=' instead of ']'"},
      {"y[N,C] f(x[N,C])", "column 8: 'f' instead of '='"},
      {"y[N,C] = f()", "column 12: an input is missing"},
      {"", "column 1: an output is missing"},
      {"y = f(x[N])", "column 3: '=' instead of '['"},
      {"y[N] = f(eps)", "no input with axes"},
      {"y[2] = f(x[2])", "no axis with a name"},
      {"y[N] = f(x[N]) + 1", "column 16: '+ 1' after the end"},
      {"y[N] = f(x[N], x[N])", "column 16: 'x' twice"},
      {"y[N,N] = f(x[N])", "column 5: axis N twice in y"},
      {"y[N] = f(x[0])", "column 12: '0' is neither"},
      {"y[N] = f(float[N])", "column 10: 'float' cannot be a name"},
      {"y[N] = f(N[C])", "column 10: 'N' is a tensor and an axis"},
      {"y[N] = f(x[y])", "column 12: 'y' is a tensor and an axis"},
      {"y[N] = f(x[N], dy[N])", "'dy' is the gradient of y"},
      {"y[N] = f(1x[N])", "column 10: the name '1x' starts with a digit"},
  };
  for (const auto& [text, what] : wrong) {
    const auto operations = operations_of_signature(text);
    ASSERT_FALSE(operations.ok()) << text;
    EXPECT_EQ(operations.error().status, Status::usage);
    EXPECT_THAT(operations.error().what, HasSubstr(what)) << text;
    EXPECT_THAT(operations.error().remedy, HasSubstr("y[N,C] = f("));
  }
}

TEST(placeholder, sums_over_the_axes_that_an_output_has_not) {
  Target target;
  target.key = "mix";
  target.operations = operations_of_signature("y[N,M] = mix(x[N,K], w[M,K], s)").value();
  fill_terms(target);
  EXPECT_EQ(target.operations[0].outputs[0].terms, "K+K");
  EXPECT_EQ(target.operations[1].outputs[0].terms, "M");
  const std::string kernel = placeholder_kernel(target);
  EXPECT_THAT(kernel, HasSubstr(R"(    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < M; ++m) {
        float sum = 0.0f;
        for (int64_t k = 0; k < K; ++k)
          sum += 2.0f * x[n * K + k] * x[n * K + k];
        for (int64_t k = 0; k < K; ++k)
          sum += 3.0f * w[m * K + k] * w[m * K + k];
        y[n * M + m] = sum * s;
      }
)"));
  EXPECT_THAT(placeholder_oracle(target), HasSubstr("call.out(1, m * K + k, R(6.0) * w(m * K + k) * sum * s);"));
}

TEST(placeholder, sums_after_one_another_add_up_and_nested_ones_multiply) {
  Target target;
  target.operations = operations_of_signature("y[N] = f(x[N,A,B], w[N,C])").value();
  fill_terms(target);
  EXPECT_EQ(target.operations[0].outputs[0].terms, "A*B+C");
}

TEST(placeholder, loop_variables_keep_clear_of_the_tensors) {
  Target target;
  target.key = "clash";
  target.operations = operations_of_signature("y[N,n2,3] = clash(n[N,n2,3])").value();
  const std::string kernel = placeholder_kernel(target);
  EXPECT_THAT(kernel, HasSubstr("for (int64_t i_N = 0; i_N < N; ++i_N)"));
  EXPECT_THAT(kernel, HasSubstr("for (int64_t i_n2 = 0; i_n2 < n2; ++i_n2)"));
  EXPECT_THAT(kernel, HasSubstr("n[(i_N * n2 + i_n2) * 3 + i_3]"));
}

TEST(placeholder, case_lists_name_every_axis_and_have_odd_lengths) {
  Target target;
  target.operations = operations_of_signature("y[A,B,C,D] = f(x[A,B,C,D])").value();
  fill_cases(target);
  EXPECT_EQ(target.quick.size(), 6u);
  for (const auto& shape : target.full) {
    EXPECT_EQ(shape.axes.size(), 4u);
    EXPECT_LE(shape.axes.at("A") * shape.axes.at("B") * shape.axes.at("C") * shape.axes.at("D"), 2'000'000);
  }
}

TEST(new_target, the_key_changes_in_literals_and_nowhere_else) {
  EXPECT_EQ(with_renamed_literals("reduce(x); // reduce\n\"reduce\", \"is not reduce's\", \"reduce_all \\\" reduce\"",
                                  "reduce", "mine"),
            "reduce(x); // reduce\n\"mine\", \"is not mine's\", \"reduce_all \\\" mine\"");
}

TEST(new_target, a_folder_that_cannot_be_finished_is_not_left_behind) {
  const TemporaryFolder root = *TemporaryFolder::create("kl-new-target");
  const auto made = make_target({"one", "", "y[N] = f(x[N])", root.path()}, Catalogue::search({}));
  ASSERT_TRUE(made.ok()) << made.error().what;
  const Catalogue catalogue = Catalogue::search({root.path()});
  fs::remove(root.path() / "one" / "reference.cpp");
  fs::create_directory(root.path() / "one" / "reference.cpp");
  const auto second = make_target({"two", "one", "", root.path()}, catalogue);
  EXPECT_FALSE(second.ok());
  EXPECT_FALSE(fs::exists(root.path() / "two"));
}

TEST(new_target, a_copy_leaves_aliases_and_the_seam_behind) {
  const TemporaryFolder root = *TemporaryFolder::create("kl-new-target");
  ASSERT_TRUE(make_target({"one", "", "y[N] = f(x[N])", root.path()}, Catalogue::search({})).ok());
  const std::string spec = read_file(root.path() / "one" / "spec.toml").value();
  ASSERT_TRUE(write_file_atomic(root.path() / "one" / "spec.toml", "aliases = [\"uno\"]\nseam = \"one\"\n" + spec).ok());
  const auto made = make_target({"two", "uno", "", root.path()}, Catalogue::search({root.path()}));
  ASSERT_TRUE(made.ok()) << made.error().what;
  const Target target = read_target(root.path() / "two").value();
  EXPECT_TRUE(target.aliases.empty());
  EXPECT_EQ(target.seam, "");
  const std::string kernel = read_file(root.path() / "two" / "kernel.cpp").value();
  EXPECT_THAT(kernel, HasSubstr("KL_EXPORT_KERNEL(\"two\""));
  EXPECT_THAT(kernel, Not(HasSubstr("\"one\"")));
}

}  // namespace
}  // namespace kl
