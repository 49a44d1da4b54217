#include <lab/integration/line_changes.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

TEST(LineChanges, counts_what_a_diff_would_show) {
  const auto changes = line_changes("a\nb\nc\nd\n", "a\nx\nc\ny\nd\n");
  EXPECT_EQ(changes.added, 2);
  EXPECT_EQ(changes.removed, 1);
}

TEST(LineChanges, of_the_same_text_are_none) {
  const auto changes = line_changes("a\nb\n", "a\nb\n");
  EXPECT_EQ(changes.added + changes.removed, 0);
}

TEST(LineChanges, of_an_empty_side_are_all_lines) {
  EXPECT_EQ(line_changes("", "a\nb").added, 2);
  EXPECT_EQ(line_changes("a\nb", "").removed, 2);
}

}  // namespace
}  // namespace kl
