#include <lab/target/spec_text.hpp>

#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

// Everything of a target that its spec says, in one text.
std::string said(const Target& target) {
  Target bare = target;
  bare.folder.clear();
  std::string text = spec_text(bare);
  for (const auto* cases : {&target.quick, &target.full})
    for (const auto& shape : *cases) {
      text += "\n" + shape.dtype;
      for (const auto& [axis, length] : shape.axes) text += " " + axis + "=" + std::to_string(length);
    }
  return text;
}

TEST(spec_text, every_target_written_and_read_again_says_the_same) {
  const TemporaryFolder root = *TemporaryFolder::create("kl-spec");
  const Catalogue catalogue = Catalogue::search({Installation::find().targets});
  ASSERT_GT(catalogue.targets().size(), 10u);
  for (const auto& target : catalogue.targets()) {
    ASSERT_TRUE(write_file_atomic(root.path() / target.key / "spec.toml", spec_text(target)).ok());
    ASSERT_TRUE(write_file_atomic(root.path() / target.key / "oracle.cpp", "").ok());
    const auto again = read_target(root.path() / target.key);
    ASSERT_TRUE(again.ok()) << again.error().what;
    EXPECT_EQ(said(*again), said(target)) << target.key;
    EXPECT_EQ(again->bound_c, target.bound_c);
    EXPECT_EQ(again->champion_k, target.champion_k);
    EXPECT_EQ(again->engine_dtypes, target.engine_dtypes);
    ASSERT_EQ(again->operations.size(), target.operations.size());
    for (size_t i = 0; i < target.operations.size(); ++i)
      for (size_t s = 0; s < target.operations[i].scalars.size(); ++s)
        EXPECT_EQ(again->operations[i].scalars[s].value, target.operations[i].scalars[s].value);
  }
}

TEST(spec_text, quotes_and_lines_in_a_title_survive) {
  const TemporaryFolder root = *TemporaryFolder::create("kl-spec");
  Target target;
  target.key = "odd";
  target.title = "says \"x\\y\"\nand more";
  target.dtypes = {"f32", "bf16"};
  TensorSpec x;
  x.name = "x";
  x.axes = {"N", "32"};
  target.operations = {{"forward", 0, {x}, {x}, {{"eps", 1e-5}}}};
  target.quick = {{{{"N", 3}}, "f32"}, {{{"N", 3}}, "bf16"}};
  ASSERT_TRUE(write_file_atomic(root.path() / "odd" / "spec.toml", spec_text(target)).ok());
  ASSERT_TRUE(write_file_atomic(root.path() / "odd" / "oracle.cpp", "").ok());
  const auto again = read_target(root.path() / "odd");
  ASSERT_TRUE(again.ok()) << again.error().what;
  EXPECT_EQ(again->title, target.title);
  EXPECT_EQ(again->quick.size(), 2u);
  EXPECT_EQ(again->operations[0].scalars[0].value, 1e-5);
}

}  // namespace
}  // namespace kl
