#include <trainer/seam_set.hpp>
#include <trainer/test_libraries.hpp>
#include <trainer/test_model.hpp>

#include <trainer/blas.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace kl::trainer {
namespace {

// Loss and gradient of the float model on the champions' libraries.
struct FloatModel {
  explicit FloatModel(const Config& c)
      : config(c), layout(c), weights(lively_weights<float>(layout)), gradient(weights.size()) {
    auto opened = SeamSet::open(c, test_champions(c), 2);
    EXPECT_TRUE(opened.ok()) << opened.error().what;
    seams = std::move(*opened);
    model = std::make_unique<Model<float>>(config, layout, *seams, std::span<const int32_t>());
  }
  void differentiate(const Batch& batch) {
    const auto valid = static_cast<float>(config.tokens() - 1);
    loss = model->forward(weights.data(), batch.tokens.data(), batch.targets.data());
    model->backward(weights.data(), gradient.data(), batch.tokens.data(), batch.targets.data(),
                    1 / valid);
    ASSERT_TRUE(seams->fault().ok()) << seams->fault().error().what;
  }
  Config config;
  Layout layout;
  std::unique_ptr<SeamSet> seams;
  std::unique_ptr<Model<float>> model;
  std::vector<float> weights, gradient;
  double loss = 0;
};

void expect_agreement_with_double(const Config& config) {
  set_threads(2);
  const Layout layout(config);
  const Batch batch = tiny_batch(config);
  OracleSeams oracles(config);
  Model<double> exact(config, layout, oracles, {});
  const auto weights = lively_weights<double>(layout);
  std::vector<double> gradient(weights.size());
  const double loss = exact.forward(weights.data(), batch.tokens.data(), batch.targets.data());
  exact.backward(weights.data(), gradient.data(), batch.tokens.data(), batch.targets.data(),
                 1 / static_cast<double>(config.tokens() - 1));

  FloatModel single(config);
  single.differentiate(batch);
  EXPECT_NEAR(loss, single.loss, 2e-6 * loss);
  for (const Parameter& p : layout.parameters()) {
    double largest = 0, error = 0;
    for (int64_t i = p.offset; i < p.offset + p.size; ++i) {
      const auto at = static_cast<size_t>(i);
      largest = std::max(largest, std::fabs(gradient[at]));
      error = std::max(error, std::fabs(gradient[at] - static_cast<double>(single.gradient[at])));
    }
    EXPECT_LT(error, 2e-5 * largest) << p.name;
  }
  const auto counts = single.seams->counts();
  for (const SeamUse& use : seam_table(config)) {
    const std::string key(contract_of(use.seam).key);
    if (use.seam == Seam::optimizer_update) continue;  // no update was made
    size_t operation = 0;
    for (const SeamOperation& named : contract_of(use.seam).all()) {
      int64_t calls = 0;
      for (const SeamCalls& c : use.calls) calls += c.shape.calls_of(std::string(named.name));
      if (use.seam == Seam::reduce && operation == kSumOfSquares) calls = 0;  // likewise
      EXPECT_EQ(counts.at(key).calls[operation++], calls) << key << " " << named.name;
    }
    if (use.seam == Seam::reduce) continue;
    EXPECT_GT(counts.at(key).ns, 0) << key;
  }
}

TEST(SeamSet, TheFloatModelWithLibrariesAgreesWithTheDoubleModel) {
  expect_agreement_with_double(tiny_config());
}

TEST(SeamSet, AndOnTheOtherPathsThroughTheRegions) {
  for (const auto& path : other_paths()) expect_agreement_with_double(tiny_config_on(path));
}

TEST(SeamSet, AStepRepeatsToTheBit) {
  set_threads(2);
  const Batch batch = tiny_batch(tiny_config());
  FloatModel one(tiny_config()), two(tiny_config());
  one.differentiate(batch);
  two.differentiate(batch);
  EXPECT_EQ(one.gradient, two.gradient);
}

int64_t ordered(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits < 0 ? int64_t{INT32_MIN} - bits : bits;
}

TEST(SeamSet, PerturbMovesEveryElementByAtMostOneUnitInTheLastPlace) {
  const Config config = tiny_config();
  const auto files = test_champions(config);
  auto plain = SeamSet::open(config, files, 2), moved = SeamSet::open(config, files, 2);
  ASSERT_TRUE(plain.ok() && moved.ok());
  ASSERT_TRUE((*moved)->perturb("rmsnorm", 3).ok());
  const size_t size = 14 * 32;
  std::vector<float> x(size), a(size), b(size), again(size);
  for (size_t i = 0; i < size; ++i) x[i] = static_cast<float>(unit(mix64(i)) - 0.5);
  (*plain)->forward(Seam::rmsnorm, 0, {x.data(), nullptr}, {a.data()});
  (*moved)->forward(Seam::rmsnorm, 0, {x.data(), nullptr}, {b.data()});
  (*moved)->forward(Seam::rmsnorm, 0, {x.data(), nullptr}, {again.data()});
  int by_place[3] = {0, 0, 0};
  for (size_t i = 0; i < size; ++i) {
    const int64_t places = ordered(b[i]) - ordered(a[i]);
    ASSERT_LE(std::abs(places), 1) << i;
    ++by_place[places + 1];
  }
  for (const int count : by_place) EXPECT_NEAR(count, static_cast<int>(size) / 3, 60);
  EXPECT_NE(b, again);  // each call draws anew
  const auto unknown = (*moved)->perturb("rmsnrom", 3);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().remedy, testing::HasSubstr("rmsnorm"));
}

TEST(SeamSet, RefusesAMissingSeamAForeignSeamAndAChangedLibrary) {
  const Config config = tiny_config();
  const SeamFiles files = test_champions(config);
  SeamFiles missing = files, foreign = files, changed = files;
  missing.erase("rmsnorm");
  foreign["softmax"] = files.at("rmsnorm");
  changed["rmsnorm"].library_hash[0] ^= 1;
  SeamFiles swapped = files;
  swapped["rmsnorm"] = files.at("loss_prelude");
  for (const SeamFiles& wrong : {missing, foreign, changed, swapped})
    EXPECT_FALSE(SeamSet::open(config, wrong, 2).ok());
}

}  // namespace
}  // namespace kl::trainer
