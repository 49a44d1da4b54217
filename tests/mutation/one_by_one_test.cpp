// The other side of the harness on trial: a kernel that sums one by one in f32 is honest, and the
// bound must let it pass in every target, whatever is drawn. KL_ONE_BY_ONE_FULL=1: the full case
// list; GTEST_FILTER picks targets.
#include "one_by_one.hpp"

#include <lab/core/files.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/verify.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace kl {
namespace {

class OneByOne : public testing::TestWithParam<std::string> {};

TEST_P(OneByOne, SumsInSinglePrecisionPass) {
  const Engine& cpu = *find_engine("cpu").value();
  const Target target = read_target(fs::path(KL_TARGETS) / GetParam()).value();
  const auto folder = TemporaryFolder::create("kernel-lab-one-by-one").value();
  VerifyRequest request;
  request.engine = &cpu;
  request.target = &target;
  request.kernel = folder.path() / "kernel.cpp";
  request.champion = target.champion(cpu).value();
  request.full = std::getenv("KL_ONE_BY_ONE_FULL") != nullptr;
  const std::string text =
      summed_one_by_one(GetParam(), read_file(target.reference()).value());
  ASSERT_TRUE(write_file_atomic(request.kernel, text).ok());
  for (const uint64_t seed : {1, 2, 3}) {
    request.seed = seed;
    const VerifyRecord record = verify(request);
    EXPECT_EQ(record.status, Status::ok) << "seed " << seed << ": " << record.reason;
    fmt::print("{} seed {}: largest error {:.2f} of its bound\n", GetParam(), seed,
               record.worst_bound_fraction);
  }
}

// Targets with an output that is a sum. The sums of `reduce` are f64 by its spec, and squares of
// subnormals are nothing in f32.
std::vector<std::string> targets_with_sums() {
  std::vector<std::string> keys;
  for (const auto& entry : fs::directory_iterator(KL_TARGETS)) {
    const auto target = read_target(entry.path());
    if (!target.ok() || target->key == "reduce") continue;
    bool sums = false;
    for (const OperationSpec& operation : target->operations)
      for (const TensorSpec& output : operation.outputs) sums = sums || output.terms != "1";
    if (sums) keys.push_back(target->key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

INSTANTIATE_TEST_SUITE_P(Targets, OneByOne, testing::ValuesIn(targets_with_sums()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace kl
