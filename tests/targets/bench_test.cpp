// Every champion under bench's timing loop: each of its calls can be redrawn, timed and checked, row by row and whole.
#include <lab/bench/bench.hpp>
#include <lab/core/installation.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

namespace kl {
namespace {

const Catalogue& catalogue() {
  static const Catalogue all = Catalogue::search(target_search_path({}));
  return all;
}

class BenchOfEveryTarget : public testing::TestWithParam<std::string> {};

// Far too short for a verdict: what counts is that nothing breaks and that calls were compared with the oracle.
TEST_P(BenchOfEveryTarget, TimesAndChecksItsChampion) {
  const Target target = catalogue().find(GetParam()).value();
  const Engine& engine = *find_engine("cpu").value();
  const auto champion = target.champion(engine);
  ASSERT_TRUE(champion.has_value());
  BenchRequest request;
  request.engine = &engine;
  request.target = &target;
  request.candidate = request.baseline = *champion;
  for (const CaseShape& shape : target.quick)
    if (shape.dtype == target.quick.back().dtype) request.shapes.push_back({.axes = shape.axes, .dtype = shape.dtype});
  request.preset = "quick cases";
  request.mode = BenchMode::quick;
  request.rule = stats::BenchRule{.processes = 1, .control_processes = 1, .process_cap_seconds = 0.02, .fewest_blocks = 2};
  const BenchRecord record = bench(request);
  EXPECT_EQ(record.status, Status::inconclusive) << to_string(record.status) << ": " << record.reason << " " << record.proof;
  EXPECT_GT(record.calls_checked, 0);
}

std::vector<std::string> keys() {
  std::vector<std::string> keys;
  for (const Target& target : catalogue().targets()) keys.push_back(target.key);
  return keys;
}

INSTANTIATE_TEST_SUITE_P(Champions, BenchOfEveryTarget, testing::ValuesIn(keys()), [](const auto& each) { return each.param; });

}  // namespace
}  // namespace kl
