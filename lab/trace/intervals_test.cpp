#include <lab/trace/intervals.hpp>

#include <gtest/gtest.h>

#include <random>

namespace kl::trace {
namespace {

constexpr int64_t kEnd = 60;

std::vector<Span> drawn(std::mt19937& random) {
  std::vector<Span> spans(random() % 12);
  for (Span& s : spans) {
    s.begin = static_cast<int64_t>(random() % kEnd);
    s.end = s.begin + static_cast<int64_t>(random() % 9) - 1;  // also empty and reversed ones
  }
  return spans;
}

// The same set, one bit a nanosecond.
std::vector<bool> painted(const std::vector<Span>& spans) {
  std::vector<bool> bits(kEnd + 10);
  for (const Span& s : spans)
    for (int64_t t = s.begin; t < s.end; ++t) bits[static_cast<size_t>(t)] = true;
  return bits;
}

void expect_set(const Spans& spans, const std::vector<bool>& bits) {
  EXPECT_EQ(painted(spans), bits);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_LT(spans[i].begin, spans[i].end);
    if (i == 0) continue;
    EXPECT_LT(spans[i - 1].end, spans[i].begin) << "they touch";
  }
}

TEST(intervals, known_answers) {
  EXPECT_EQ(union_of({{5, 8}, {1, 3}, {3, 4}, {7, 9}, {2, 2}}), (Spans{{1, 4}, {5, 9}}));
  EXPECT_EQ(intersect(Spans{{0, 10}}, Spans{{2, 3}, {5, 12}}), (Spans{{2, 3}, {5, 10}}));
  EXPECT_EQ(subtract(Spans{{0, 10}}, Spans{{2, 3}, {5, 12}}), (Spans{{0, 2}, {3, 5}}));
  EXPECT_EQ(length(Spans{{0, 2}, {3, 5}}), 4);
}

TEST(intervals, every_operation_is_that_of_sets) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const auto x = drawn(random), y = drawn(random);
    const auto p = painted(x), q = painted(y);
    const Spans a = union_of(x), b = union_of(y);
    std::vector<bool> either(p.size()), both(p.size()), without(p.size());
    int64_t size = 0;
    for (size_t t = 0; t < p.size(); ++t) {
      either[t] = p[t] || q[t];
      both[t] = p[t] && q[t];
      without[t] = p[t] && !q[t];
      size += p[t];
    }
    expect_set(a, p);
    expect_set(unite(a, b), either);
    expect_set(intersect(a, b), both);
    expect_set(subtract(a, b), without);
    EXPECT_EQ(length(a), size);
  }
}

}  // namespace
}  // namespace kl::trace
