#include <trainer/derivative.hpp>
#include <trainer/test_corpus.hpp>
#include <trainer/test_libraries.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace kl::trainer {
namespace {

using testing::HasSubstr;

class DerivativeTest : public testing::Test {
 protected:
  std::unique_ptr<Session> open() const {
    auto session = Session::open(corpus_.config(), std::move(*open_dataset(corpus_.config(), {})),
                                 test_champions(corpus_.config()));
    EXPECT_TRUE(session.ok()) << session.error().what;
    return std::move(*session);
  }
  fs::path file() const { return corpus_.folder() / "derivative.safetensors"; }
  TestCorpus corpus_;
};

TEST_F(DerivativeTest, TheFileHoldsTheFirstStepsTokensLossAndGradientAndWhatTheyFollowFrom) {
  auto session = open();
  const auto written = write_derivative(*session, file());
  ASSERT_TRUE(written.ok()) << written.error().what;

  const Layout& layout = session->layout();
  std::vector<float> weights(static_cast<size_t>(layout.size())), gradients(weights.size());
  std::vector<int32_t> tokens(2 * 24), targets(tokens.size());
  std::vector<double> loss(1);
  std::vector<NamedTensor> tensors = named_tensors(layout, weights);
  for (NamedTensor& t : named_tensors(layout, gradients)) {
    t.name = "gradient." + t.name;
    tensors.push_back(t);
  }
  tensors.emplace_back("tokens", std::vector<int64_t>{2, 24}, tokens);
  tensors.emplace_back("targets", std::vector<int64_t>{2, 24}, targets);
  tensors.emplace_back("loss", std::vector<int64_t>{1}, loss);
  auto metadata = read_safetensors(file(), tensors);
  ASSERT_TRUE(metadata.ok()) << metadata.error().what;
  EXPECT_EQ(parse_json((*metadata)["config"], "config")->at("vocab"), 320);

  // Another session, from the same seed, sees the same step.
  auto other = open();
  const auto step = other->differentiate();
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(loss[0], step->loss);
  EXPECT_THAT(tokens, testing::ElementsAreArray(other->inputs()));
  EXPECT_THAT(targets, testing::ElementsAreArray(other->targets()));
  EXPECT_TRUE(std::ranges::equal(weights, *other->stepper().weights()));
  EXPECT_TRUE(std::ranges::equal(gradients, *other->stepper().gradients()));
  EXPECT_GT(step->grad_norm, 0);
}

TEST_F(DerivativeTest, ATensorOfAnotherTypeIsNamed) {
  ASSERT_TRUE(write_derivative(*open(), file()).ok());
  std::vector<float> tokens(2 * 24);
  const NamedTensor wrong("tokens", {2, 24}, tokens);
  const auto outcome = read_safetensors(file(), std::span(&wrong, 1));
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().what, HasSubstr("tokens is \"I32\" [2,24], not F32"));
}

}  // namespace
}  // namespace kl::trainer
