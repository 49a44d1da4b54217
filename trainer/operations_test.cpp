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

// With equal scores the output is the mean of the visible values: it counts the keys.
TEST(Attention, AWindowOfWKeepsWPreviousKeysAndTheCurrentOne) {
  const AttentionShape shape{1, 150, 1, 1, 2, 70};  // more rows than one block of work
  const size_t size = 150 * 2;
  std::vector<double> q(size, 0), k(size, 1), v(size), o(size), p(150 * 150);
  for (size_t t = 0; t < 150; ++t) v[2 * t] = static_cast<double>(t);
  attention(o.data(), p.data(), q.data(), k.data(), v.data(), shape);
  for (int t = 0; t < 150; ++t) {
    const int first = std::max(0, t - 70);
    EXPECT_NEAR(o[static_cast<size_t>(2 * t)], (first + t) / 2.0, 1e-9) << t;
    EXPECT_NEAR(p[static_cast<size_t>(t * 150 + t)], 1.0 / (t - first + 1), 1e-12) << t;
  }
}

TEST(Attention, GroupedHeadsReadTheirGroupsKeys) {
  const AttentionShape shape{1, 2, 4, 2, 2, 2};
  std::vector<double> q(16, 0), k(8, 0), v = {1, 1, 5, 5, 1, 1, 5, 5}, o(16), p(16);
  attention(o.data(), p.data(), q.data(), k.data(), v.data(), shape);
  EXPECT_NEAR(o[0], 1, 1e-12);
  EXPECT_NEAR(o[2], 1, 1e-12);
  EXPECT_NEAR(o[4], 5, 1e-12);
  EXPECT_NEAR(o[6], 5, 1e-12);
}

}  // namespace
}  // namespace kl::trainer
