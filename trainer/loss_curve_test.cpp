#include <trainer/loss_curve.hpp>

#include <lab/core/files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kl::trainer {
namespace {

TEST(LossCurve, AFallingLineFallsFromTheUpperLeftToTheLowerRight) {
  const std::vector<double> losses = {8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(draw_losses(losses, 4, 2),
            "  8.0000 \u2811\u2884\n"
            "  1.0000   \u2811\u2884\n"
            "         0 step 7\n");
}

TEST(LossCurve, ManyStepsAreAveragedAndGapsStayGaps) {
  std::vector<double> losses(1000, 2.0);
  losses[0] = 4;
  for (size_t i = 500; i < 1000; ++i) losses[i] = std::nan("");
  const std::string text = draw_losses(losses, 10, 3);
  EXPECT_THAT(text, testing::HasSubstr("2.0400"));  // the mean of 50 with one 4
  EXPECT_THAT(text, testing::HasSubstr("step 999"));
  EXPECT_EQ(draw_losses(std::vector<double>{std::nan("")}, 10, 3), "no finite loss\n");
}

TEST(LossCurve, ReadsStepEventsAndNamesAFileWithout) {
  const auto folder = TemporaryFolder::create("curve");
  const auto file = folder->path() / "e.jsonl";
  ASSERT_TRUE(write_file_atomic(file,
                                "{\"event\":\"start\"}\n{\"event\":\"step\",\"loss\":1.5}\n"
                                "{\"event\":\"step\",\"loss\":null}\n{\"event\":\"st")
                  .ok());
  const auto losses = read_losses(file);
  ASSERT_TRUE(losses.ok());
  ASSERT_EQ(losses->size(), 2u);
  EXPECT_EQ(losses->front(), 1.5);
  EXPECT_TRUE(std::isnan(losses->back()));
  ASSERT_TRUE(write_file_atomic(file, "{}\n").ok());
  EXPECT_FALSE(read_losses(file).ok());
}

}  // namespace
}  // namespace kl::trainer
