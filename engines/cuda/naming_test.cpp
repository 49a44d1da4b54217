// Names, versions and texts of other programs, without a device.
#include <engines/cuda/doctor.hpp>
#include <engines/cuda/driver.hpp>
#include <engines/cuda/nvml.hpp>
#include <engines/cuda/toolkit.hpp>

#include <gmock/gmock.h>

namespace kl::cuda {
namespace {

using ::testing::ElementsAre;

TEST(architecture_named, takes_what_people_write) {
  EXPECT_EQ(*architecture_named("sm_90"), "sm_90");
  EXPECT_EQ(*architecture_named("90"), "sm_90");
  EXPECT_EQ(*architecture_named("9.0"), "sm_90");
  EXPECT_EQ(*architecture_named("sm_90a"), "sm_90a");
  EXPECT_EQ(*architecture_named("compute_120"), "sm_120");
  EXPECT_FALSE(architecture_named("hopper").ok());
  EXPECT_FALSE(architecture_named("").ok());
}

TEST(version_of_nvcc, reads_the_full_version) {
  EXPECT_EQ(version_of_nvcc("nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n"), "13.0.88");
  EXPECT_EQ(version_of_nvcc("gcc (Debian) 12.2"), "");
}

TEST(version_text, writes_what_people_know) {
  EXPECT_EQ(version_text(13000), "13.0");
  EXPECT_EQ(version_text(12080), "12.8");
  EXPECT_EQ(version_text(0), "unknown");
}

TEST(throttle_names, idle_and_chosen_clocks_are_no_throttling) {
  EXPECT_THAT(throttle_names(0x1 | 0x2), ElementsAre());
  EXPECT_THAT(throttle_names(0x4 | 0x40), ElementsAre("sw-power-cap", "hw-thermal-slowdown"));
}

TEST(counters_are_restricted, reads_the_drivers_parameters) {
  EXPECT_EQ(counters_are_restricted("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n"), true);
  EXPECT_EQ(counters_are_restricted("RmProfilingAdminOnly: 0\n"), false);
  EXPECT_EQ(counters_are_restricted(""), std::nullopt);
}

TEST(rule_of, names_what_an_error_means) {
  EXPECT_EQ(rule_of(CUDA_ERROR_ILLEGAL_ADDRESS), "kernel-fault");
  EXPECT_EQ(rule_of(CUDA_ERROR_LAUNCH_FAILED), "kernel-fault");  // a trap
  EXPECT_EQ(rule_of(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), "launch-failed");
  EXPECT_EQ(rule_of(CUDA_ERROR_OUT_OF_MEMORY), "out-of-memory");
  EXPECT_EQ(rule_of(CUDA_ERROR_NO_BINARY_FOR_GPU), "wrong-architecture");
  EXPECT_EQ(rule_of(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT), "not-capturable");
  EXPECT_TRUE(is_sticky(CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_FALSE(is_sticky(CUDA_ERROR_OUT_OF_MEMORY));
}

}  // namespace
}  // namespace kl::cuda
