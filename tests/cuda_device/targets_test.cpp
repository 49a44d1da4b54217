// The targets' CUDA kernels build for the device at hand and use only what a kernel may. Needs nvcc,
// not a device.
#include "device_kernel.hpp"

#include <engines/cuda/toolkit.hpp>

#include <lab/core/installation.hpp>

#include <gmock/gmock.h>

namespace kl::testing {
namespace {

TEST(kernels_of_targets, build_and_use_only_what_a_kernel_may) {
  if (!cuda::Toolkit::find().ok()) GTEST_SKIP() << cuda::Toolkit::find().error().what;
  auto cache = TemporaryFolder::create("kernel-lab-device-test").value();
  const Builder builder(cuda_engine(), cache.path());
  std::vector<std::string> sources;
  for (const auto& target : fs::directory_iterator(Installation::find().targets))
    for (const char* name : {"kernel.cu", "reference.cu"})
      if (const auto source = read_file(target.path() / name); source.ok()) sources.push_back(*source);
  build_all(sources, builder);
  int built = 0;
  for (const auto& target : fs::directory_iterator(Installation::find().targets))
    for (const char* name : {"kernel.cu", "reference.cu"}) {
      if (!fs::exists(target.path() / name)) continue;
      const auto library = builder.build({target.path() / name, "", {}});
      ASSERT_TRUE(library.ok()) << library.error().what;
      EXPECT_THAT(library->violations, ::testing::IsEmpty()) << target.path() / name;
      EXPECT_THAT(library->writable, ::testing::IsEmpty()) << target.path() / name;
      EXPECT_THAT(library->report.notes, ::testing::Not(::testing::IsEmpty()));
      ++built;
    }
  EXPECT_GE(built, 1);
}

TEST(kernels_of_targets, that_allocate_wait_or_run_code_at_load_are_found) {
  if (!cuda::Toolkit::find().ok()) GTEST_SKIP() << cuda::Toolkit::find().error().what;
  auto folder = TemporaryFolder::create("kernel-lab-device-test").value();
  const Builder builder(cuda_engine(), folder.path() / "cache");
  const auto violations = [&](const KernelText& text) {
    const fs::path file = folder.path() / "kernel.cu";
    EXPECT_TRUE(write_file_atomic(file, text.source()).ok());
    const auto library = builder.build({file, "", {}});
    EXPECT_TRUE(library.ok()) << library.error().what;
    return library.ok() ? library->violations : std::vector<std::string>();
  };
  using ::testing::ElementsAre;
  using ::testing::HasSubstr;
  EXPECT_THAT(violations({}), ::testing::IsEmpty());
  EXPECT_THAT(violations({.run = "add_one<<<blocks, 256, 0, s>>>(x, y, n); cudaStreamSynchronize(s);"}),
              ElementsAre(HasSubstr("cudaStreamSynchronize")));
  EXPECT_THAT(violations({.run = "float* p = nullptr; cudaMalloc(&p, 4); add_one<<<blocks, 256, 0, s>>>(p, y, n);"}),
              ElementsAre(HasSubstr("cudaMalloc")));
  EXPECT_THAT(violations({.device = KernelText().device + "\nstruct Early { Early(); int v; };\nint early();\n"
                                                          "Early::Early() : v(early()) {}\nEarly at_load;\n"
                                                          "int early() { return static_cast<int>(cudaGetLastError()); }"}),
              ElementsAre(HasSubstr("runs code when it is loaded")));
}

}  // namespace
}  // namespace kl::testing
