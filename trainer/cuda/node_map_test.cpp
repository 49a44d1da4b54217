#include <trainer/cuda/node_map.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl::trainer::cuda {
namespace {

using testing::HasSubstr;

const int memory[6] = {};
std::vector<NodeMap::Node> nodes(int count) {
  std::vector<NodeMap::Node> result;
  for (int i = 0; i < count; ++i) result.push_back(memory + i);
  return result;
}

TEST(NodeMap, GivesACallTheNodesThatItAdded) {
  NodeMap map;
  ASSERT_TRUE(map.record("rmsnorm", true, nodes(1), nodes(2)).ok());
  ASSERT_TRUE(map.record("loss_prelude", true, nodes(3), nodes(5)).ok());
  ASSERT_TRUE(map.record("rmsnorm", false, nodes(5), nodes(6)).ok());
  EXPECT_EQ(map.seam_of(memory), nullptr) << "a node of the step itself";
  EXPECT_EQ(*map.seam_of(memory + 1), "rmsnorm");
  EXPECT_EQ(map.seam_of(memory + 2), nullptr);
  EXPECT_EQ(*map.seam_of(memory + 3), "loss_prelude");
  EXPECT_EQ(*map.seam_of(memory + 4), "loss_prelude");
  EXPECT_EQ(*map.seam_of(memory + 5), "rmsnorm");
  const SeamCounts rmsnorm = map.of_replay().at("rmsnorm"), loss = map.of_replay().at("loss_prelude");
  EXPECT_EQ(rmsnorm.calls[KL_FORWARD], 1);
  EXPECT_EQ(rmsnorm.calls[KL_BACKWARD], 1);
  EXPECT_EQ(rmsnorm.graph_nodes, 2);
  EXPECT_EQ(loss.calls[KL_FORWARD], 1);
  EXPECT_EQ(loss.calls[KL_BACKWARD], 0);
  EXPECT_EQ(loss.graph_nodes, 2);
}

TEST(NodeMap, ACallThatLeavesNoNodeIsRefused) {
  NodeMap map;
  const Outcome outcome = map.record("rmsnorm", false, nodes(3), nodes(3));
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().what, HasSubstr("rmsnorm backward left no node"));
  EXPECT_THAT(outcome.error().remedy, HasSubstr("stream"));
}

TEST(NodeMap, TheOrderOfTheNodesDoesNotMatter) {
  NodeMap map;
  const std::vector<NodeMap::Node> before = {memory + 2, memory}, after = {memory + 1, memory, memory + 2};
  ASSERT_TRUE(map.record("rmsnorm", true, before, after).ok());
  EXPECT_EQ(*map.seam_of(memory + 1), "rmsnorm");
  EXPECT_EQ(map.seam_of(memory + 2), nullptr);
}

}  // namespace
}  // namespace kl::trainer::cuda
