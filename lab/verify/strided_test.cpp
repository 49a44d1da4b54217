#include <lab/verify/strided.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace kl {
namespace {

constexpr DLDataType kF32{kDLFloat, 32, 1};

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto view = std::as_bytes(std::span(values));
  return {view.begin(), view.end()};
}

TEST(Layout, ASpanEndsWithTheLastElementOfTheLastRow) {
  EXPECT_EQ((Layout{kF32, {2, 3}, {}}.span()), 6);
  EXPECT_EQ((Layout{kF32, {2, 3}, {5, 1}}.span()), 8);
  EXPECT_EQ((Layout{kF32, {2, 3}, {1, 2}}.span()), 6);
  EXPECT_TRUE((Layout{kF32, {2, 3}, {3, 1}}.packed()));
  EXPECT_FALSE((Layout{kF32, {2, 3}, {5, 1}}.packed()));
}

TEST(Layout, ARowOfAVectorIsOneElement) {
  const Layout packed{kF32, {3}, {}}, spread{kF32, {3}, {5}};
  for (const Layout* vector : {&packed, &spread}) {
    EXPECT_EQ(vector->row().span(), 1);
    EXPECT_EQ(vector->row().bytes(), 4u);
  }
  EXPECT_EQ(packed.row_offset(2), 8u);
  EXPECT_EQ(spread.row_offset(2), 40u);
}

TEST(Layout, PaddedRowsHavePoisonBetweenThem) {
  const Layout layout{kF32, {2, 3}, {5, 1}};
  const auto packed = bytes_of({1, 2, 3, 4, 5, 6});
  std::vector<float> buffer(8);
  auto* data = reinterpret_cast<std::byte*>(buffer.data());
  scatter(layout, packed, 0, data);
  EXPECT_EQ(buffer[2], 3);
  EXPECT_TRUE(std::isnan(buffer[3]) && std::isnan(buffer[4]));
  EXPECT_EQ(buffer[5], 4);
  EXPECT_EQ(gather(layout, data), packed);
  EXPECT_FALSE(written_gap(layout, data, 0).has_value());
  buffer[4] = 0;
  EXPECT_EQ(written_gap(layout, data, 0), 4);
}

TEST(Layout, ATransposedTensorHasItsColumnsTogether) {
  const Layout layout{kF32, {2, 3}, {1, 2}};
  const auto packed = bytes_of({1, 2, 3, 4, 5, 6});
  std::vector<float> buffer(6);
  auto* data = reinterpret_cast<std::byte*>(buffer.data());
  scatter(layout, packed, 1, data);
  EXPECT_EQ(buffer, (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(gather(layout, data), packed);
}

}  // namespace
}  // namespace kl
