#include <lab/verify/tensor_data.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace kl {
namespace {

constexpr DLDataType kF32{kDLFloat, 32, 1};
constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kI32{kDLInt, 32, 1};

double through(DLDataType dtype, double value) {
  std::array<std::byte, 8> bytes{};
  double back = 0;
  from_doubles(dtype, std::span(&value, 1), bytes.data());
  to_doubles(dtype, bytes.data(), std::span(&back, 1));
  return back;
}

TEST(TensorData, Bf16RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(through(kBf16, 1.0), 1.0);
  EXPECT_EQ(through(kBf16, 1.0 + 0x1p-8), 1.0);               // tie, even below
  EXPECT_EQ(through(kBf16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);  // tie, even above
  EXPECT_EQ(through(kBf16, 1.0 + 0x1p-8 + 0x1p-12), 1.0 + 0x1p-7);
  EXPECT_TRUE(std::isnan(through(kBf16, std::nan(""))));
  EXPECT_EQ(through(kBf16, std::numeric_limits<double>::infinity()),
            std::numeric_limits<double>::infinity());
}

TEST(TensorData, RoundOffAndUlpAreThoseOfIeee) {
  EXPECT_EQ(unit_roundoff(kF32), 0x1p-24);
  EXPECT_EQ(unit_roundoff(kBf16), 0x1p-8);
  EXPECT_EQ(unit_roundoff(kI32), 0);
  EXPECT_EQ(ulp_of(1.0, kF32), double{std::numeric_limits<float>::epsilon()});
  EXPECT_EQ(ulp_of(-1.5, kF32), 0x1p-23);
  EXPECT_EQ(ulp_of(0.0, kF32), 0x1p-149);
  EXPECT_EQ(ulp_of(7, kI32), 1);
}

TEST(TensorData, PoisonPatternsDifferAndAreRecognised) {
  for (const DLDataType dtype :
       {kF32, kBf16, kI32, DLDataType{kDLFloat, 64, 1}, DLDataType{kDLInt, 64, 1}}) {
    std::array<std::byte, 64> data{};
    const auto count = static_cast<int64_t>(data.size() / element_bytes(dtype));
    for (int pattern = 0; pattern < kPoisonPatterns; ++pattern) {
      poison(dtype, data.data(), count, pattern);
      for (int64_t i = 0; i < count; ++i)
        for (int other = 0; other < kPoisonPatterns; ++other)
          EXPECT_EQ(
              is_poison(dtype, data.data() + static_cast<size_t>(i) * element_bytes(dtype), other),
              other == pattern)
              << dtype_name(dtype);
      if (is_integer(dtype)) continue;
      // NaN, and the larger and the smaller of two values that a kernel may take.
      double value = 0;
      to_doubles(dtype, data.data(), std::span(&value, 1));
      EXPECT_EQ(std::isnan(value), pattern == 0) << dtype_name(dtype);
      if (pattern > 0) {
        EXPECT_GT(pattern == 1 ? value : -value, 1e38) << dtype_name(dtype);
      }
      EXPECT_FALSE(std::isinf(value)) << dtype_name(dtype);
    }
  }
}

TEST(TensorData, IndexCountsRowMajor) {
  const std::vector<int64_t> shape = {2, 3, 4};
  EXPECT_EQ(index_of(23, shape), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(index_of(4, shape), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(element_count(shape), 24);
  EXPECT_EQ(element_count(std::vector<int64_t>{}), 0);
}

TEST(TensorData, AnUnknownElementTypeIsNamed) {
  const auto dtype = dtype_from_name("fp7");
  ASSERT_FALSE(dtype.ok());
  EXPECT_NE(dtype.error().what.find("fp7"), std::string::npos);
}

}  // namespace
}  // namespace kl
