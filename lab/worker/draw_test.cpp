#include <lab/worker/draw.hpp>

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace kl {
namespace {

template <class T>
std::vector<T> drawn(DLDataType dtype, const std::vector<T>& pool, int64_t rotation, double factor) {
  std::vector<T> to(pool.size());
  draw_from_pool(dtype, std::as_bytes(std::span(pool)), rotation, factor,
                 reinterpret_cast<std::byte*>(to.data()));
  return to;
}

TEST(draw_from_pool, starts_at_the_rotation_and_wraps) {
  EXPECT_EQ(drawn<float>({kDLFloat, 32, 1}, {1, 2, 3, 4, 5}, 2, 1), (std::vector<float>{3, 4, 5, 1, 2}));
  EXPECT_EQ(drawn<float>({kDLFloat, 32, 1}, {1, 2, 3, 4, 5}, 4, -2), (std::vector<float>{-10, -2, -4, -6, -8}));
}

TEST(draw_from_pool, moves_integers_whatever_the_factor) {
  EXPECT_EQ(drawn<int32_t>({kDLInt, 32, 1}, {7, 8, 9}, 1, 3), (std::vector<int32_t>{8, 9, 7}));
}

TEST(draw_from_pool, rounds_bf16_to_nearest_even) {
  // 1.0078125 (0x3F81) * 1.5 = 1.51171875 lies between 0x3FC1 and 0x3FC2, half way: even wins.
  // 1.0 * 1.005859375 = 1.005859375 is nearer to 0x3F81 than to 0x3F80.
  EXPECT_EQ(drawn<uint16_t>({kDLBfloat, 16, 1}, {0x3F81}, 0, 1.5), std::vector<uint16_t>{0x3FC2});
  EXPECT_EQ(drawn<uint16_t>({kDLBfloat, 16, 1}, {0x3F80}, 0, 1.005859375), std::vector<uint16_t>{0x3F81});
}

TEST(draw_from_pool, keeps_infinities_and_nans_of_bf16) {
  const auto got = drawn<uint16_t>({kDLBfloat, 16, 1}, {0x7F80, 0xFF80, 0x7FC1}, 0, 2);
  EXPECT_EQ(got[0], 0x7F80);
  EXPECT_EQ(got[1], 0xFF80);
  EXPECT_EQ(got[2] & 0x7F80, 0x7F80);
  EXPECT_NE(got[2] & 0x7F, 0);
}

}  // namespace
}  // namespace kl
