#include <lab/core/files.hpp>
#include <lab/target/target.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

constexpr std::string_view kSpec = R"(key = "double_it"
aliases = ["twice"]
title = "Twice the input."
maths = "exact-reorder"
[[operation]]
name = "forward"
inputs = [ { name = "x", axes = ["N"] } ]
outputs = [ { name = "y", axes = ["N"], mode = "write" } ]
scalars = [ { name = "eps", value = 0.5 } ]
[cases]
quick = [ { N = 7 } ]
)";

class TargetTest : public testing::Test {
 protected:
  void write(std::string_view spec, const std::string& key = "double_it") {
    ASSERT_TRUE(write_file_atomic(root_.path() / key / "spec.toml", spec).ok());
    ASSERT_TRUE(write_file_atomic(root_.path() / key / "oracle.cpp", "// maths").ok());
  }
  std::string changed(std::string_view from, std::string_view to) {
    std::string text(kSpec);
    return text.replace(text.find(from), from.size(), to);
  }
  Error error_of(const std::string& spec) {
    write(spec);
    const auto target = read_target(root_.path() / "double_it");
    EXPECT_FALSE(target.ok());
    return target.ok() ? Error{} : target.error();
  }
  TemporaryFolder root_ = *TemporaryFolder::create("kl-target");
};

TEST_F(TargetTest, a_spec_is_read_whole) {
  write(kSpec);
  const auto target = read_target(root_.path() / "double_it");
  ASSERT_TRUE(target.ok()) << target.error().what;
  EXPECT_EQ(target->key, "double_it");
  ASSERT_EQ(target->operations.size(), 1u);
  EXPECT_EQ(target->operations[0].inputs[0].axes, std::vector<std::string>{"N"});
  EXPECT_EQ(target->operations[0].scalars[0].value, 0.5);
  EXPECT_EQ(target->quick.front().axes.at("N"), 7);
  EXPECT_TRUE(target->bitwise_repeatable);
}

TEST_F(TargetTest, a_syntax_error_has_line_and_column) {
  const Error error = error_of(changed("maths =", "maths ="
                                                  " ="));
  EXPECT_NE(error.what.find("spec.toml:4:"), std::string::npos) << error.what;
}

TEST_F(TargetTest, an_unknown_key_has_its_place_and_a_near_match) {
  const Error error = error_of(changed("title", "titel"));
  EXPECT_NE(error.what.find("spec.toml:3:"), std::string::npos) << error.what;
  EXPECT_NE(error.what.find("did you mean title"), std::string::npos) << error.what;
}

TEST_F(TargetTest, an_empty_case_list_is_refused) {
  EXPECT_NE(error_of(changed("{ N = 7 }", "")).what.find("no case"), std::string::npos);
}

TEST_F(TargetTest, a_case_with_an_unknown_axis_is_refused) {
  EXPECT_NE(error_of(changed("{ N = 7 }", "{ M = 7 }")).what.find("unknown axis 'M'"), std::string::npos);
}

TEST_F(TargetTest, a_wrong_mode_lists_what_is_possible) {
  EXPECT_NE(error_of(changed("\"write\"", "\"writ\"")).what.find("write"), std::string::npos);
}

TEST_F(TargetTest, an_inout_output_says_what_it_holds_before_the_call) {
  write(changed("mode = \"write\"", "mode = \"inout\", kind = \"fraction\""));
  const auto target = read_target(root_.path() / "double_it");
  ASSERT_TRUE(target.ok()) << target.error().what;
  EXPECT_EQ(target->operations[0].outputs[0].kind, InputKind::fraction);
}

TEST_F(TargetTest, an_output_that_is_wholly_written_has_no_kind) {
  const Error error = error_of(changed("mode = \"write\"", "mode = \"write\", kind = \"unit\""));
  EXPECT_NE(error.what.find("output 'y' is not inout: it has no kind"), std::string::npos) << error.what;
}

TEST_F(TargetTest, an_engine_may_have_element_types_of_its_own) {
  write(changed("maths =", "engine.cuda.dtypes = [\"f32\", \"bf16\"]\nmaths ="));
  const auto target = read_target(root_.path() / "double_it");
  ASSERT_TRUE(target.ok()) << target.error().what;
  EXPECT_EQ(target->dtypes, std::vector<std::string>{"f32"});
  EXPECT_EQ(target->for_engine("cpu").quick.size(), 1u);
  const Target cuda = target->for_engine("cuda");
  EXPECT_EQ(cuda.dtypes, (std::vector<std::string>{"f32", "bf16"}));
  ASSERT_EQ(cuda.quick.size(), 2u);
  EXPECT_EQ(cuda.quick[1].dtype, "bf16");
  EXPECT_EQ(cuda.quick[1].axes.at("N"), 7);
  EXPECT_EQ(cuda.spec_hash, target->spec_hash);
  EXPECT_NE(error_of(changed("maths =", "engine.cuda.dtype = [\"f32\"]\nmaths =")).what.find("dtypes"),
            std::string::npos);
}

TEST_F(TargetTest, a_tensor_says_how_it_may_be_strided) {
  write(changed("axes = [\"N\"] } ]", "axes = [\"N\"], strides = \"rows\" } ]"));
  const auto target = read_target(root_.path() / "double_it");
  ASSERT_TRUE(target.ok()) << target.error().what;
  EXPECT_EQ(target->operations[0].inputs[0].strides, StrideRule::rows);
  EXPECT_NE(error_of(changed("axes = [\"N\"] } ]", "axes = [\"N\"], strides = \"row\" } ]"))
                .what.find("did you mean rows"),
            std::string::npos);
}

TEST_F(TargetTest, the_first_folder_on_the_path_wins_and_a_broken_one_is_reported) {
  auto other = *TemporaryFolder::create("kl-target");
  write(kSpec);
  write("key = ", "broken");
  ASSERT_TRUE(write_file_atomic(other.path() / "double_it" / "spec.toml", changed("Twice the input", "Other")).ok());
  ASSERT_TRUE(write_file_atomic(other.path() / "double_it" / "oracle.cpp", "").ok());
  const auto catalogue = Catalogue::search({other.path(), root_.path()});
  ASSERT_EQ(catalogue.targets().size(), 1u);
  EXPECT_EQ(catalogue.targets()[0].title, "Other.");
  EXPECT_EQ(catalogue.broken().size(), 1u);
  EXPECT_EQ(catalogue.find("twice")->key, "double_it");
  EXPECT_NE(catalogue.find("broken").error().what.find("spec.toml:1:"), std::string::npos);
  EXPECT_EQ(catalogue.find("double_at").error().remedy, "did you mean double_it?");
}

}  // namespace
}  // namespace kl
