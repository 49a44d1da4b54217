// How many units in the last place the loss kernels are off. A bound that allows for any order of
// summation is too wide for that, and an error that a whole row shares drives a loss curve apart.
#include "target_call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace kl::target_test {
namespace {

// Root mean square of got - expected, in units in the last place of a float; exact zeros left out.
double rms_ulps(const std::vector<double>& got, const std::vector<double>& expected) {
  double squares = 0;
  int64_t count = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (expected[i] == 0) continue;
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(expected[i]), -126) - 23);
    squares += std::pow((got[i] - expected[i]) / ulp, 2);
    ++count;
  }
  return std::sqrt(squares / static_cast<double>(count));
}

// Bounds of the rms errors, about a fifth above what they are (docs/measurements.md).
struct Accuracy {
  double scale;  // of normal logits
  double champion_dlogits, reference_dlogits, champion_nll, reference_nll;
};
constexpr Accuracy kAccuracies[] = {{0.02, 0.8, 0.7, 0.35, 0.35},
                                    {0.5, 1.0, 1.15, 0.35, 0.35},
                                    {2, 1.9, 3.15, 0.35, 0.4},
                                    {8, 5.2, 8, 0.35, 0.7}};

TEST(LossKernels, ErrorsStayWithinTheirUnitsInTheLastPlace) {
  const TargetUnderTest& t = target("loss_prelude");
  const Axes axes{{"N", 256}, {"V", 2048}};
  for (const Accuracy& accuracy : kAccuracies) {
    CallData forward = make_call(t.spec.operations[0], axes, 41, accuracy.scale);
    CallData backward = make_call(t.spec.operations[1], axes, 42);
    for (const char* name : {"logits", "targets"}) backward.input(name) = forward.input(name);
    const auto nll = evaluate(t.oracle, forward, false)[0].values;
    const auto dlogits = evaluate(t.oracle, backward, false)[0].values;
    for (const auto* kernel : {&t.champion, &t.reference}) {
      const bool is_champion = kernel == &t.champion;
      std::vector<std::byte> saved;
      const auto what = std::string(is_champion ? "champion" : "reference") + " at scale " +
                        std::to_string(accuracy.scale);
      EXPECT_LE(rms_ulps(run(*kernel, forward, saved)[0], nll),
                is_champion ? accuracy.champion_nll : accuracy.reference_nll)
          << what;
      EXPECT_LE(rms_ulps(run(*kernel, backward, saved)[0], dlogits),
                is_champion ? accuracy.champion_dlogits : accuracy.reference_dlogits)
          << what;
    }
  }
}

}  // namespace
}  // namespace kl::target_test
