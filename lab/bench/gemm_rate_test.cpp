#include <lab/bench/gemm_rate.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

TEST(GemmRate, IsThatOfARealProcessorAndSaysItsShape) {
  const DeviceFigures figures = measure_host_gemm(256, 3);
  ASSERT_TRUE(figures.fp32_tflop_per_s) << figures.gemm_unknown;
  EXPECT_GT(*figures.fp32_tflop_per_s, 1e-4);  // a plain triple loop reaches 1e-3
  EXPECT_LT(*figures.fp32_tflop_per_s, 100);   // 0.1 PFLOP/s: a wrong unit
  EXPECT_EQ(figures.gemm_shape, "256 x 256 x 256");
  EXPECT_FALSE(figures.bf16_tflop_per_s);
}

}  // namespace
}  // namespace kl
