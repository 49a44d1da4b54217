#include <trainer/seam_set.hpp>
#include <trainer/test_libraries.hpp>
#include <trainer/test_model.hpp>

#include <trainer/blas.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace kl::trainer {
namespace {

TEST(SeamSet, TheFloatModelWithLibrariesAgreesWithTheDoubleModel) {
  const Config config = tiny_config();
  set_threads(2);
  const Layout layout(config);
  const Batch batch = tiny_batch(config);
  const double valid = static_cast<double>(config.tokens() - 1);

  PlainSeams<double> plain(config);
  Model<double> exact(config, layout, plain, 2);
  const auto weights = lively_weights<double>(layout);
  std::vector<double> gradient(weights.size());
  const double loss = exact.forward(weights.data(), batch.tokens.data(), batch.targets.data());
  exact.backward(weights.data(), gradient.data(), batch.tokens.data(), batch.targets.data(), 1 / valid);

  const std::vector<int32_t> token_bytes(23, 1);
  auto seams = SeamSet::open(config, test_champions(), token_bytes, 2);
  ASSERT_TRUE(seams.ok()) << seams.error().what;
  Model<float> single(config, layout, **seams, 2);
  const auto float_weights = lively_weights<float>(layout);
  std::vector<float> float_gradient(weights.size());
  const double float_loss = single.forward(float_weights.data(), batch.tokens.data(), batch.targets.data());
  single.backward(float_weights.data(), float_gradient.data(), batch.tokens.data(), batch.targets.data(),
                  static_cast<float>(1 / valid));
  ASSERT_TRUE((*seams)->fault().ok()) << (*seams)->fault().error().what;

  EXPECT_NEAR(loss, float_loss, 2e-6 * loss);
  for (const Parameter& p : layout.parameters()) {
    double largest = 0, error = 0;
    for (int64_t i = p.offset; i < p.offset + p.size; ++i) {
      const auto at = static_cast<size_t>(i);
      largest = std::max(largest, std::fabs(gradient[at]));
      error = std::max(error, std::fabs(gradient[at] - static_cast<double>(float_gradient[at])));
    }
    EXPECT_LT(error, 2e-5 * largest) << p.name;
  }
  const auto counts = (*seams)->counts();
  for (const auto& seam : describe_seams(config)) {
    EXPECT_EQ(counts.at(seam.seam).forward, seam.shapes[0].calls_per_step) << seam.seam;
    EXPECT_EQ(counts.at(seam.seam).backward, seam.shapes[0].calls_per_step) << seam.seam;
    EXPECT_GT(counts.at(seam.seam).ns, 0) << seam.seam;
  }
}

int64_t ordered(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits < 0 ? int64_t{INT32_MIN} - bits : bits;
}

TEST(SeamSet, PerturbMovesEveryElementByAtMostOneUnitInTheLastPlace) {
  const Config config = tiny_config();
  const std::vector<int32_t> token_bytes(23, 1);
  const auto files = test_champions();
  auto plain = SeamSet::open(config, files, token_bytes, 2), moved = SeamSet::open(config, files, token_bytes, 2);
  ASSERT_TRUE(plain.ok() && moved.ok());
  ASSERT_TRUE((*moved)->perturb("rmsnorm", 3).ok());
  const size_t size = 14 * 32;
  std::vector<float> x(size), a(size), b(size), again(size);
  for (size_t i = 0; i < size; ++i) x[i] = static_cast<float>(unit(mix64(i)) - 0.5);
  (*plain)->rmsnorm_forward(0, x.data(), a.data());
  (*moved)->rmsnorm_forward(0, x.data(), b.data());
  (*moved)->rmsnorm_forward(0, x.data(), again.data());
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
  const std::vector<int32_t> token_bytes(23, 1);
  const SeamFiles files = test_champions();
  SeamFiles missing = files, foreign = files, changed = files;
  missing.erase("rmsnorm");
  foreign["softmax"] = files.at("rmsnorm");
  changed["rmsnorm"].library_hash[0] ^= 1;
  SeamFiles swapped = files;
  swapped["rmsnorm"] = files.at("loss_prelude");
  for (const SeamFiles& wrong : {missing, foreign, changed, swapped})
    EXPECT_FALSE(SeamSet::open(config, wrong, token_bytes, 2).ok());
}

}  // namespace
}  // namespace kl::trainer
