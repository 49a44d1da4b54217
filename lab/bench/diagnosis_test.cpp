#include <lab/bench/diagnosis.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

constexpr auto unknown = std::nullopt;

struct Row {
  const char* what;
  ResourceShares shares;
  const char* label;
  double confidence;
};

TEST(Diagnosis, IsTheFirstRowThatApplies) {
  const Row rows[] = {
      {"nothing known", {unknown, unknown, 0.9, 0.9}, "", 0},
      {"a copy at its ceiling", {0.02, 0.95, 0.9, unknown}, "bandwidth-bound", 0.95},
      {"exactly 60 %, alone", {0.1, 0.6, 0.9, unknown}, "bandwidth-bound", 0.95},
      {"ten points above", {0.5, 0.6, 0.9, unknown}, "bandwidth-bound", 0.65},
      {"a product at its rate", {0.8, 0.3, 0.9, unknown}, "compute-bound", 0.95},
      {"a margin of 25 points", {0.85, 0.6, 0.9, unknown}, "compute-bound", 0.8},
      {"both high, close", {0.75, 0.7, 0.9, unknown}, "mixed", 0.4},
      {"high, the other unknown", {unknown, 0.7, 0.9, unknown}, "bandwidth-bound", 0.5},
      {"high although threads idle", {0.1, 0.7, 0.3, 0.9}, "bandwidth-bound", 0.95},
      {"one thread of two at most", {0.1, 0.4, 0.49, 0.9}, "under-occupied", 0.45},
      {"busy and stalled", {0.1, 0.4, 0.9, 0.5}, "latency-bound", 0.45},
      {"threads unknown, stalled", {0.1, 0.4, unknown, 0.6}, "latency-bound", 0.45},
      {"busy, no stalls known", {0.1, 0.59, 0.9, unknown}, "mixed", 0.3},
      {"low, the other unknown", {0.3, unknown, 0.9, unknown}, "mixed", 0.3},
  };
  for (const Row& row : rows) {
    const Diagnosis found = diagnose(row.shares);
    EXPECT_EQ(found.label, row.label) << row.what << ": " << found.why;
    EXPECT_NEAR(found.confidence, row.confidence, 1e-9) << row.what;
    EXPECT_FALSE(found.why.empty()) << row.what;
  }
}

}  // namespace
}  // namespace kl
