#include <engines/cuda/ptxas_report.hpp>

#include <gtest/gtest.h>

namespace kl::cuda {
namespace {

const std::string kSaid = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN36_GLOBAL__N__2dc503e2_4_k_cu_86f61c757add_oneILi1EEEvPKfPfl' for 'sm_90'
ptxas info    : Function properties for _ZN36_GLOBAL__N__2dc503e2_4_k_cu_86f61c757add_oneILi1EEEvPKfPfl
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 1024 bytes smem
ptxas info    : Compile time = 17.645 ms
ptxas info    : Compiling entry function '_Z4slowPf' for 'sm_90'
ptxas info    : Function properties for _Z4slowPf
    520 bytes stack frame, 96 bytes spill stores, 128 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
)";

TEST(resources_of, reads_every_kernel_by_its_demangled_name) {
  const auto kernels = resources_of(kSaid);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "add_one<1>");
  EXPECT_EQ(kernels[0].registers, 12);
  EXPECT_EQ(kernels[0].shared_bytes, 1024);
  EXPECT_EQ(kernels[0].spill_store_bytes, 0);
  EXPECT_EQ(kernels[1].name, "slow");
  EXPECT_EQ(kernels[1].registers, 255);
  EXPECT_EQ(kernels[1].stack_bytes, 520);
  EXPECT_EQ(kernels[1].spill_store_bytes, 96);
  EXPECT_EQ(kernels[1].spill_load_bytes, 128);
}

TEST(resources_of, keeps_what_is_not_said_unknown) {
  const auto kernels = resources_of("ptxas info    : Compiling entry function '_Z4slowPf' for 'sm_90'\n");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].registers, -1);
  EXPECT_NE(note_of(kernels[0]).find("registers unknown"), std::string::npos);
  EXPECT_TRUE(resources_of("nothing of the kind").empty());
}

TEST(note_of, says_spills_only_when_there_are_some) {
  const auto kernels = resources_of(kSaid);
  EXPECT_EQ(note_of(kernels[0]), "add_one<1>: 12 registers, 1024 bytes of shared memory, no spills");
  EXPECT_EQ(note_of(kernels[1]), "slow: 255 registers, 520 bytes of stack, spills 96 bytes out and 128 bytes in");
}

TEST(without_ptxas_info, leaves_the_error) {
  EXPECT_EQ(without_ptxas_info(kSaid + "k.cu(3): error: identifier \"x\" is undefined\n"),
            "k.cu(3): error: identifier \"x\" is undefined\n");
}

}  // namespace
}  // namespace kl::cuda
