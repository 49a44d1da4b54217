#include <lab/trace/import/decimal.hpp>

#include <gtest/gtest.h>

namespace kl::trace {
namespace {

TEST(decimal, no_digit_is_lost) {
  EXPECT_EQ(scaled_decimal("1419247332972.313", 3), 1419247332972313);
  EXPECT_EQ(scaled_decimal("1707417525509335", 3), 1707417525509335000);
  EXPECT_EQ(scaled_decimal("1661203462598738.999", 3), 1661203462598738999);
  EXPECT_EQ(scaled_decimal("-0.001", 3), -1);
  EXPECT_EQ(scaled_decimal("0", 3), 0);
  EXPECT_EQ(scaled_decimal("9223372036854775807", 0), 9223372036854775807);
  EXPECT_EQ(scaled_decimal("9223372036854775808", 0), std::nullopt);
}

TEST(decimal, exponents_and_places) {
  EXPECT_EQ(scaled_decimal("1.5e3", 3), 1500000);
  EXPECT_EQ(scaled_decimal("15E-1", 3), 1500);
  EXPECT_EQ(scaled_decimal("1.419247332972313e+12", 3), 1419247332972313);
  EXPECT_EQ(scaled_decimal("1e-9", 3), 0);
  EXPECT_EQ(scaled_decimal("0e99999999999", 3), 0);
  EXPECT_EQ(scaled_decimal("0.0005", 3), 1) << "halves away from zero";
  EXPECT_EQ(scaled_decimal("-0.0005", 3), -1);
  EXPECT_EQ(scaled_decimal("0.00049999", 3), 0);
  EXPECT_EQ(scaled_decimal("0.12345678901234567890123", 3), 123);
  EXPECT_EQ(scaled_decimal(".5", 3), 500);
  EXPECT_EQ(scaled_decimal("5.", 3), 5000);
}

TEST(decimal, what_is_no_number_or_does_not_fit_is_nothing) {
  for (const char* text : {"", "-", ".", "e5", "1e", "1e+", "NaN", "inf", "1.2.3", "1 ", " 1", "1,5", "0x10", "1e30", "99999999999999999999",
                           "9223372036854775807", "1e99999999999"})
    EXPECT_EQ(scaled_decimal(text, 3), std::nullopt) << text;
}

}  // namespace
}  // namespace kl::trace
