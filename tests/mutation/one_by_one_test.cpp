// The other side of the harness on trial: a kernel that sums one by one in f32 is honest, and so is
// the champion; both bounds must let them pass in every target, whatever is drawn, beside a
// champion that sums in double as well. KL_ONE_BY_ONE_FULL=1: the full case list; GTEST_FILTER
// picks targets.
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

void expect_to_pass(const Target& target, const fs::path& kernel, const fs::path& champion,
                    const std::string& what) {
  VerifyRequest request;
  request.engine = find_engine("cpu").value();
  request.target = &target;
  request.kernel = kernel;
  request.champion = champion;
  request.full = std::getenv("KL_ONE_BY_ONE_FULL") != nullptr;
  for (const uint64_t seed : {1, 2, 3}) {
    request.seed = seed;
    const VerifyRecord record = verify(request);
    EXPECT_EQ(record.status, Status::ok) << what << ", seed " << seed << ": " << record.reason;
    fmt::print("{} {} seed {}: largest error {:.2f} of its bound\n", target.key, what, seed,
               record.worst_bound_fraction);
  }
}

// References sum in double.
TEST_P(OneByOne, SumsInSinglePrecisionPassBesideDoubleOnes) {
  const Target target = read_target(fs::path(KL_TARGETS) / GetParam()).value();
  const auto folder = TemporaryFolder::create("kernel-lab-one-by-one").value();
  const fs::path kernel = folder.path() / "kernel.cpp";
  const std::string text = summed_one_by_one(GetParam(), read_file(target.reference()).value());
  ASSERT_TRUE(write_file_atomic(kernel, text).ok());
  expect_to_pass(target, kernel, target.reference(), "one by one");
}

TEST_P(OneByOne, TheChampionPassesBesideDoubleSums) {
  const Target target = read_target(fs::path(KL_TARGETS) / GetParam()).value();
  expect_to_pass(target, target.champion(*find_engine("cpu").value()).value(), target.reference(),
                 "champion");
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
