#include <trainer/cuda/token_index.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kl::trainer::cuda {
namespace {

using testing::ElementsAre;

TEST(TokenIndex, ListsWhereEveryTokenStandsInAscendingOrder) {
  const std::vector<int32_t> tokens = {3, 0, 3, 1, 3};
  std::vector<int32_t> begin(5, 99), positions(5, 99);
  index_tokens(tokens, begin, positions);
  EXPECT_THAT(begin, ElementsAre(0, 1, 2, 2, 5));
  EXPECT_THAT(positions, ElementsAre(1, 3, 0, 2, 4));
}

TEST(TokenIndex, OfNoTokensIsEmpty) {
  std::vector<int32_t> begin(3, 99);
  index_tokens({}, begin, {});
  EXPECT_THAT(begin, ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace kl::trainer::cuda
