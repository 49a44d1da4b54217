// The CUDA step against the model in double, on a model that is small but has everything: grouped
// heads, both windows, value embeddings, several micro-batches and several chunks of logits. Needs
// an NVIDIA GPU and the CUDA engine's compiler; without a GPU these tests are skipped.
#include <lab/core/files.hpp>
#include <trainer/optimiser.hpp>
#include <trainer/cuda/open.hpp>
#include <trainer/cuda/stepper.hpp>
#include <trainer/test_libraries.hpp>
#include <trainer/test_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace kl::trainer::cuda {
namespace {

using testing::HasSubstr;

Config tiny() {
  Config c = tiny_config();
  c.device = "cuda";
  c.vocab = 64;
  c.sequence = 16;
  c.width = 64;
  c.head_dim = 16;
  c.kv_heads = 2;
  c.rows = 4;
  c.accumulation = 2;
  c.loss_rows = 32;
  return c;
}

Batch batch_of(const Config& c, uint64_t seed) {
  Batch batch;
  const auto draw = [&c](uint64_t i) { return static_cast<int32_t>(mix64(i) % static_cast<uint64_t>(c.vocab)); };
  for (uint64_t n = 0; n < static_cast<uint64_t>(c.tokens_per_step()); ++n) {
    batch.tokens.push_back(draw(1000 * seed + n));
    batch.targets.push_back(draw(1000 * seed + n + 500));
  }
  return batch;
}

// Weights that bf16 holds exactly, so that both models have the same.
std::vector<float> exact_weights(const Layout& layout) {
  std::vector<float> weights = lively_weights<float>(layout);
  for (float& w : weights) w = std::bit_cast<float>(std::bit_cast<uint32_t>(w) & 0xffff0000u);
  return weights;
}

double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const float v : values) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class CudaStep : public testing::Test {
 protected:
  void SetUp() override {
    if (const Outcome device = require_device(); !device.ok())
      GTEST_SKIP() << "needs an NVIDIA GPU: " << device.error().what;
  }
  static const SeamFiles& champions() {
    static const TemporaryFolder cache = std::move(*TemporaryFolder::create("cuda-step"));
    static const SeamFiles files = [] {
      auto built = champion_files(tiny(), **find_engine("cuda"), Builder(**find_engine("cuda"), cache.path()));
      EXPECT_TRUE(built.ok()) << built.error().what << "; " << built.error().remedy;
      return built.ok() ? *built : SeamFiles{};
    }();
    return files;
  }
  std::unique_ptr<CudaStepper> open() const {
    DatasetFacts data;
    data.piece_bytes.assign(64, 3);
    auto opened = CudaStepper::open(config_, layout_, data, champions());
    EXPECT_TRUE(opened.ok()) << opened.error().what << "; " << opened.error().remedy;
    if (!opened.ok()) return nullptr;
    std::unique_ptr<CudaStepper> stepper(static_cast<CudaStepper*>(opened->release()));
    write_weights(*stepper, weights_);
    return stepper;
  }
  static void write_weights(Stepper& stepper, const std::vector<float>& weights) {
    const auto to = stepper.weights();
    ASSERT_TRUE(to.ok()) << to.error().what;
    std::copy(weights.begin(), weights.end(), to->begin());
    ASSERT_TRUE(stepper.weights_changed().ok());
  }
  static std::vector<float> copy_of(const Result<std::span<float>>& values) {
    EXPECT_TRUE(values.ok());
    return {values->begin(), values->end()};
  }

  const Config config_ = tiny();
  const Layout layout_{config_};
  const std::vector<float> weights_ = exact_weights(layout_);
  const Batch batch_ = batch_of(config_, 1);
};

TEST_F(CudaStep, GradientsAgreeWithTheModelInDouble) {
  OracleSeams oracles(config_);
  Model<double> model(config_, layout_, oracles, {});
  const std::vector<double> weights(weights_.begin(), weights_.end());
  std::vector<double> expected(weights.size());
  double loss = 0;
  for (int64_t micro = 0; micro < config_.accumulation; ++micro) {
    const int64_t at = micro * config_.tokens();
    loss += model.forward(weights.data(), batch_.tokens.data() + at, batch_.targets.data() + at) /
            static_cast<double>(config_.accumulation);
    model.backward(weights.data(), expected.data(), batch_.tokens.data() + at, batch_.targets.data() + at,
                   1 / static_cast<double>(config_.tokens_per_step()));
  }

  const auto stepper = open();
  ASSERT_NE(stepper, nullptr);
  const auto result = stepper->differentiate(batch_.tokens, batch_.targets);
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_NEAR(result->loss, loss, 2e-2);
  const auto gradients = stepper->gradients();
  ASSERT_TRUE(gradients.ok()) << gradients.error().what;
  EXPECT_NEAR(result->grad_norm, norm_of(*gradients), 1e-6 * result->grad_norm);
  for (const Parameter& p : layout_.parameters()) {
    double dot = 0, ours = 0, theirs = 0;
    for (int64_t i = p.offset; i < p.offset + p.size; ++i) {
      const double a = static_cast<double>((*gradients)[static_cast<size_t>(i)]);
      const double b = expected[static_cast<size_t>(i)];
      dot += a * b;
      ours += a * a;
      theirs += b * b;
    }
    EXPECT_GE(dot / std::sqrt(ours * theirs), 1 - 1e-3) << p.name;
    EXPECT_NEAR(std::sqrt(ours / theirs), 1, 0.03) << p.name << ": a cosine does not see a wrong scale";
  }
}

TEST_F(CudaStep, TheLossesOfAForwardPassAreThoseOfTheStep) {
  const auto stepper = open();
  ASSERT_NE(stepper, nullptr);
  const auto N = static_cast<size_t>(config_.tokens());
  double sum = 0;
  for (size_t micro = 0; micro < 2; ++micro) {
    const auto losses = stepper->losses(std::span(batch_.tokens).subspan(micro * N, N),
                                        std::span(batch_.targets).subspan(micro * N, N));
    ASSERT_TRUE(losses.ok()) << losses.error().what;
    ASSERT_EQ(losses->size(), N);
    for (const float nll : *losses) sum += static_cast<double>(nll);
  }
  const auto result = stepper->differentiate(batch_.tokens, batch_.targets);
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_NEAR(result->loss, sum / static_cast<double>(2 * N), 1e-9);
}

TEST_F(CudaStep, TheUpdateIsTheCpusAdamW) {
  const auto stepper = open();
  ASSERT_NE(stepper, nullptr);
  std::vector<float> expected = weights_;
  Config on_cpu = config_;
  on_cpu.device = "cpu";
  const auto seams = SeamSet::open(on_cpu, test_champions(on_cpu), 2);
  ASSERT_TRUE(seams.ok()) << seams.error().what;
  Optimiser optimiser(on_cpu, layout_, **seams);
  const double progress = 1 - 0.5 * config_.decay_fraction;  // half the rate
  for (uint64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(config_, step);
    const auto gradient = stepper->differentiate(batch.tokens, batch.targets);
    ASSERT_TRUE(gradient.ok()) << gradient.error().what;
    const auto gradients = stepper->gradients();
    std::vector<float> g(gradients->begin(), gradients->end());
    optimiser.step(expected.data(), g.data(), progress);
    const auto result = stepper->step(batch.tokens, batch.targets, progress);
    ASSERT_TRUE(result.ok()) << result.error().what;
    EXPECT_EQ(result->loss, gradient->loss) << "the same batch from the same weights";
    const std::vector<float> weights = copy_of(stepper->weights());
    for (size_t i = 0; i < weights.size(); ++i)
      ASSERT_NEAR(weights[i], expected[i], 2e-5f * std::max(1.0f, std::fabs(expected[i]))) << "element " << i;
    expected = weights;
  }
}

TEST_F(CudaStep, TwoRunsGiveTheSameBits) {
  std::vector<float> first;
  std::vector<double> losses;
  for (int run = 0; run < 2; ++run) {
    const auto stepper = open();
    ASSERT_NE(stepper, nullptr);
    for (uint64_t step = 0; step < 5; ++step) {
      const Batch batch = batch_of(config_, step);
      const auto result = stepper->step(batch.tokens, batch.targets, 0.25);
      ASSERT_TRUE(result.ok()) << result.error().what;
      if (run == 0)
        losses.push_back(result->loss);
      else
        EXPECT_EQ(result->loss, losses[step]) << "step " << step;
    }
    const std::vector<float> weights = copy_of(stepper->weights());
    if (run == 0)
      first = weights;
    else
      EXPECT_TRUE(same_bits(first, weights));
  }
  EXPECT_FALSE(same_bits(first, weights_)) << "the steps changed nothing";
}

TEST_F(CudaStep, TheGraphGivesWhatTheSameLaunchesGiveWithoutOne) {
  const auto graph = open(), eager = open();
  ASSERT_NE(graph, nullptr);
  ASSERT_NE(eager, nullptr);
  for (uint64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(config_, step);
    const auto replayed = graph->step(batch.tokens, batch.targets, 0.25);
    const auto launched = eager->step_without_graph(batch.tokens, batch.targets, 0.25);
    ASSERT_TRUE(replayed.ok()) << replayed.error().what;
    ASSERT_TRUE(launched.ok()) << launched.error().what;
    EXPECT_EQ(replayed->loss, launched->loss);
    EXPECT_EQ(replayed->grad_norm, launched->grad_norm);
  }
  EXPECT_TRUE(same_bits(copy_of(graph->weights()), copy_of(eager->weights())));
}

TEST_F(CudaStep, CallsAreNodesTimesReplays) {
  const auto stepper = open();
  ASSERT_NE(stepper, nullptr);
  constexpr int64_t kSteps = 4;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto result = stepper->step(batch_.tokens, batch_.targets, 1);
    ASSERT_TRUE(result.ok()) << result.error().what;
    EXPECT_GT(result->device_ns, 0);
    EXPECT_GE(result->ns, result->device_ns / 2);
  }
  const auto counts = stepper->counts();
  for (const auto& seam : describe_seams(config_)) {
    const SeamCounts& of_replay = stepper->nodes()->of_replay().at(seam.seam);
    for (const int operation : {KL_FORWARD, KL_BACKWARD}) {
      const int64_t calls = of_replay.calls[static_cast<size_t>(operation)];
      EXPECT_EQ(calls, seam.shapes[0].calls_of(operation == KL_FORWARD ? "forward" : "backward")) << seam.seam;
      EXPECT_EQ(counts.at(seam.seam).calls[static_cast<size_t>(operation)], kSteps * calls) << seam.seam;
      EXPECT_GE(of_replay.graph_nodes, 2 * calls) << seam.seam;
    }
    EXPECT_EQ(counts.at(seam.seam).graph_nodes, kSteps * of_replay.graph_nodes) << seam.seam;
    EXPECT_GT(counts.at(seam.seam).ns, 0) << seam.seam;
  }
}

TEST_F(CudaStep, APerturbedSeamMovesTheLossALittle) {
  const auto reference = open();
  ASSERT_NE(reference, nullptr);
  const double loss = reference->differentiate(batch_.tokens, batch_.targets)->loss;
  for (const char* seam : {"rmsnorm", "loss_prelude"}) {
    const auto stepper = open();
    ASSERT_NE(stepper, nullptr);
    ASSERT_TRUE(stepper->perturb(seam, 5).ok());
    const auto first = stepper->differentiate(batch_.tokens, batch_.targets);
    ASSERT_TRUE(first.ok()) << first.error().what;
    EXPECT_NE(first->loss, loss) << seam;
    EXPECT_NEAR(first->loss, loss, 2e-2) << seam;
    const auto second = stepper->differentiate(batch_.tokens, batch_.targets);
    ASSERT_TRUE(second.ok()) << second.error().what;
    EXPECT_NE(second->loss, first->loss) << seam << ": every step draws its own moves";
  }
  const auto unknown = reference->perturb("rmsnrm", 5);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().remedy, HasSubstr("rmsnorm"));
}

TEST_F(CudaStep, ARunawayLossLeavesTheWeightsAsTheyWere) {
  const auto stepper = open();
  ASSERT_NE(stepper, nullptr);
  std::vector<float> broken = weights_;
  broken[static_cast<size_t>(layout_.find("wte").offset)] = std::nanf("");
  write_weights(*stepper, broken);
  Batch batch = batch_;
  batch.tokens[0] = 0;
  const auto result = stepper->step(batch.tokens, batch.targets, 1);
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_TRUE(result->runaway);
  EXPECT_TRUE(same_bits(copy_of(stepper->weights()), broken));
}

TEST(CudaStepWithoutADevice, SaysWhatIsMissing) {
  if (require_device().ok()) GTEST_SKIP() << "this machine has an NVIDIA GPU";
  const Config config = tiny();
  const Layout layout(config);
  const auto opened = open_cuda_stepper(config, layout, {}, {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().status, Status::missing_runtime);
  EXPECT_THAT(opened.error().what, HasSubstr("CUDA"));
  EXPECT_THAT(opened.error().remedy, HasSubstr("preset"));
}

}  // namespace
}  // namespace kl::trainer::cuda
