#include <trainer/operations.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kl::trainer {
namespace {

TEST(Rotary, TurnsThePairByItsPositionTimesTheFrequency) {
  const int64_t T = 3, D = 4;
  std::vector<double> cosine(6), sine(6);
  rotary_tables(cosine.data(), sine.data(), T, D);
  EXPECT_EQ(cosine[0], 1);
  EXPECT_EQ(sine[0], 0);
  EXPECT_EQ(cosine[2 * 1], 0.5390625);   // cos 1 = 0.5403 in bf16
  EXPECT_EQ(sine[2 * 1], 0.83984375);    // sin 1 = 0.8415
  EXPECT_EQ(sine[2 * 1 + 1], 0.010009765625);  // sin 0.01: 10000^(-2/4) = 0.01
}

}  // namespace
}  // namespace kl::trainer
