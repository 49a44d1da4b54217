#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

TEST(table, columns_line_up_and_numbers_go_right) {
  Table table({"case", ">ms"});
  table.row({"forward", "1.5"});
  table.row({"b", "12.25"});
  EXPECT_EQ(table.text({}),
            "  case        ms\n"
            "  forward    1.5\n"
            "  b        12.25\n");
}

TEST(table, width_counts_letters_not_bytes_or_escapes) {
  EXPECT_EQ(display_width("µs"), 2u);
  EXPECT_EQ(display_width("\x1b[1mbold\x1b[0m"), 4u);
}

TEST(style, nothing_is_decorated_when_switched_off) {
  EXPECT_EQ(Style{false}.status(Status::improved), "improved");
  EXPECT_NE(Style{true}.status(Status::improved), "improved");
}

TEST(figures, are_what_people_read) {
  EXPECT_EQ(duration_text(0.00123), "1.23 ms");
  EXPECT_EQ(duration_text(4.5e-6), "4.5 µs");
  EXPECT_EQ(percent_text(0.0125), "+1.25 %");
  EXPECT_EQ(percent_text(-0.000001), "+0.00 %");
  EXPECT_EQ(bytes_text(12'345'678), "12.3 MB");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-999), "-999");
}

}  // namespace
}  // namespace kl
