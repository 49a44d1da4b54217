#include <lab/services/services.hpp>

#include <gtest/gtest.h>

#include <omp.h>

#include <vector>

namespace kl {
namespace {

const std::vector<std::string> kListed = {"sgemm"};

std::vector<float> counting(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 7 - 3));
  return values;
}

// op(A)[m,k] * op(B)[k,n] + beta * C; small integers are exact in any order.
std::vector<float> expected(char ta, char tb, int64_t m, int64_t n, int64_t k,
                            const std::vector<float>& a, const std::vector<float>& b, float beta,
                            std::vector<float> c) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a[static_cast<size_t>(ta == 'T' ? l * m + i : i * k + l)] *
               b[static_cast<size_t>(tb == 'T' ? j * k + l : l * n + j)];
      float& at = c[static_cast<size_t>(i * n + j)];
      at = 2 * sum + beta * at;
    }
  return c;
}

TEST(Services, SgemmIsRowMajorWithEitherOperandTransposed) {
  constexpr int64_t m = 5, n = 3, k = 9;
  const auto a = counting(m * k), b = counting(k * n);
  for (const char ta : {'N', 'T'})
    for (const char tb : {'N', 'T'}) {
      auto c = counting(m * n);
      ASSERT_EQ(services(kListed)
                    .sgemm(ta, tb, m, n, k, 2, a.data(), ta == 'T' ? m : k, b.data(),
                           tb == 'T' ? k : n, 3, c.data(), n)
                    .code,
                KL_OK);
      EXPECT_EQ(c, expected(ta, tb, m, n, k, a, b, 3, counting(m * n))) << ta << tb;
    }
}

TEST(Services, SgemmMayBeCalledByAllThreadsOfARegionAtOnce) {
  constexpr int64_t size = 96;
  constexpr int kThreads = 4, kRounds = 50;
  make_services_ready(kThreads);
  const auto a = counting(size * size), b = counting(size * size);
  const auto right = expected('N', 'N', size, size, size, a, b, 0, std::vector<float>(size * size));
  int wrong = 0, together = 0;
#pragma omp parallel num_threads(kThreads) reduction(+ : wrong, together)
  {
    together = omp_get_num_threads() > 1;
    std::vector<float> c(size * size);
    for (int round = 0; round < kRounds; ++round) {
      services(kListed).sgemm('N', 'N', size, size, size, 2, a.data(), size, b.data(), size, 0,
                              c.data(), size);
      wrong += c != right;
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(together, kThreads) << "the calls were not concurrent, so this test showed nothing";
}

TEST(Services, WhatASpecDoesNotListIsUnsupported) {
  float x = 1;
  const auto code = [&](std::vector<std::string> listed) {
    return services(listed).sgemm('N', 'N', 1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1).code;
  };
  EXPECT_EQ(code({}), KL_UNSUPPORTED);
  EXPECT_EQ(code({"dgemm"}), KL_UNSUPPORTED);
  EXPECT_EQ(code({"sgemm"}), KL_OK);
}

TEST(Services, SgemmRefusesWhatOpenBlasWouldComplainAbout) {
  float x[4] = {};
  const auto code = [&](char trans, int64_t m, int64_t lda) {
    return services(kListed).sgemm(trans, 'N', m, 1, 2, 1, x, lda, x, 1, 0, x, 1).code;
  };
  EXPECT_EQ(code('N', 1, 2), KL_OK);
  EXPECT_EQ(code('n', 1, 2), KL_BAD_ARGUMENT);
  EXPECT_EQ(code('N', -1, 2), KL_BAD_ARGUMENT);
  EXPECT_EQ(code('N', int64_t{1} << 31, 2), KL_BAD_ARGUMENT);
  EXPECT_EQ(code('N', 1, 1), KL_BAD_ARGUMENT);
}

}  // namespace
}  // namespace kl
