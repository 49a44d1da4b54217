// Every oracle's backward against its forward, and that this check can fail.
#include "gradients.hpp"

#include <lab/core/files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

namespace kl::target_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Targets with gradients: their second operation is called backward.
std::vector<std::string> keys() {
  std::vector<std::string> keys;
  for (const Target& target : catalogue().targets())
    if (target.operations.size() > 1 && target.operations[KL_BACKWARD].name == "backward")
      keys.push_back(target.key);
  return keys;
}

class Gradient : public testing::TestWithParam<std::string> {};

TEST_P(Gradient, OfTheOracleIsTheDerivativeOfItsForward) {
  const Target target = catalogue().find(GetParam()).value();
  EXPECT_THAT(gradient_faults(target, oracle_of(target)), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Targets, Gradient, testing::ValuesIn(keys()),
                         [](const auto& param) { return param.param; });

TEST(SearchPath, HasOnlySpecsThatCanBeRead) {
  for (const Error& error : catalogue().broken()) ADD_FAILURE() << error.what;
}

// A target of the lab's with one piece of its spec or oracle exchanged.
class ChangedTarget {
 public:
  ChangedTarget(const std::string& key, const std::string& file, std::string_view from,
                std::string_view to) {
    const Target original = catalogue().find(key).value();
    for (const char* name : {"spec.toml", "oracle.cpp"}) {
      std::string text = read_file(original.folder / name).value();
      if (name == file) text.replace(text.find(from), from.size(), to);
      EXPECT_TRUE(write_file_atomic(folder_.path() / key / name, text).ok());
    }
    target_ = read_target(folder_.path() / key).value();
  }
  const Target& target() const { return target_; }

 private:
  TemporaryFolder folder_ = *TemporaryFolder::create("kl-gradients");
  Target target_;
};

TEST(GradientFaults, AWrongSignIsFound) {
  const ChangedTarget changed("rmsnorm", "oracle.cpp", "r * (g(c) - call.in",
                              "r * (g(c) + call.in");
  EXPECT_THAT(gradient_faults(changed.target(), oracle_of(changed.target())),
              Contains(HasSubstr("dx[")));
}

TEST(GradientFaults, AGradientThatReplacesWhatItShouldAddToIsFound) {
  const ChangedTarget changed("rmsnorm", "oracle.cpp", "call.before(kDw, c)", "R(0.0)");
  EXPECT_THAT(gradient_faults(changed.target(), oracle_of(changed.target())),
              Contains(HasSubstr("dw[")));
}

TEST(GradientFaults, ABackwardWithOtherNamesIsRefusedWithTheNamesThatWouldDo) {
  const ChangedTarget input("activation_pointwise", "spec.toml", "\"dy\"", "\"gradient\"");
  EXPECT_THAT(
      naming_faults(input.target()),
      ElementsAre(
          HasSubstr("'gradient' belongs to nothing of forward: call an incoming gradient dy"),
          HasSubstr("no incoming gradient")));
  const ChangedTarget output("activation_pointwise", "spec.toml", "\"dh\"", "\"dx\"");
  EXPECT_THAT(
      gradient_faults(output.target(), oracle_of(output.target())),
      ElementsAre(HasSubstr("'dx' is no gradient of an input of forward: call it one of dh")));
}

}  // namespace
}  // namespace kl::target_test
