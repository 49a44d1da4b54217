// The harness on trial: the share of seeded bugs that verify catches, and the share of honest
// variants it lets pass. Prints the score; every bug must be caught and every variant must pass.
#include "mutants.hpp"
#include "usual_rules.hpp"

#include <lab/build/builder.hpp>
#include <lab/core/files.hpp>
#include <lab/services/services.hpp>
#include <lab/target/axes.hpp>
#include <lab/verify/case_queue.hpp>
#include <lab/verify/verify.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace kl {
namespace {

const Engine& cpu() { return *find_engine("cpu").value(); }

// Elements of all inputs of all operations.
int64_t input_elements(const Target& target, const CaseShape& shape) {
  int64_t elements = 0;
  for (const OperationSpec& operation : target.operations)
    for (const TensorSpec& input : operation.inputs) {
      int64_t product = 1;
      for (const std::string& axis : input.axes) product *= axis_length(axis, shape.axes).value();
      elements += product;
    }
  return elements;
}

// The target's own list, without its largest shapes and those of single elements.
const Target& target_named(const std::string& key) {
  constexpr int64_t kMostElements = 80'000, kLongestAxis = 512;
  static std::map<std::string, Target> targets;
  if (const auto known = targets.find(key); known != targets.end()) return known->second;
  Target target = read_target(fs::path(KL_TARGETS) / key).value();
  std::erase_if(target.quick, [&](const CaseShape& shape) {
    const auto all_within = [&](int64_t length) {
      return std::all_of(shape.axes.begin(), shape.axes.end(),
                         [&](const auto& axis) { return axis.second <= length; });
    };
    return all_within(1) || !all_within(kLongestAxis) ||
           input_elements(target, shape) > kMostElements;
  });
  return targets.emplace(key, std::move(target)).first->second;
}

class Mutated {
 public:
  explicit Mutated(const Mutant& mutant)
      : folder_(TemporaryFolder::create("kernel-lab-mutant").value()) {
    std::string text = read_file(target_named(mutant.target).reference()).value();
    const size_t at = text.find(mutant.from);
    found_ = at != std::string::npos;
    if (found_) text.replace(at, mutant.from.size(), mutant.to);
    (void)write_file_atomic(path(), text);
  }
  bool found() const { return found_; }
  fs::path path() const { return folder_.path() / "kernel.cpp"; }

 private:
  TemporaryFolder folder_;
  bool found_ = false;
};

VerifyRecord verified(const Mutant& mutant, const fs::path& kernel) {
  const Target& target = target_named(mutant.target);
  VerifyRequest request;
  request.engine = &cpu();
  request.target = &target;
  request.kernel = kernel;
  request.champion = target.champion(cpu()).value();
  request.seed = 42;
  return verify(request);
}

// The contents of the same plan, drawn and evaluated once for each target; or its normal data
// alone, which is what a usual test draws.
const std::vector<CaseData>& cases_of(const std::string& key, bool normal_only) {
  static std::map<std::pair<std::string, bool>, std::vector<CaseData>> drawn;
  auto& cases = drawn[{key, normal_only}];
  if (!cases.empty()) return cases;
  const Target& target = target_named(key);
  const auto library = Builder(cpu()).build_oracle(target.oracle()).value();
  const auto oracle = OracleLibrary::load(library.path, key).value();
  for (const CaseGroup& group : plan_cases(target, {}, false).groups)
    for (const Case& item : group.cases)
      if (!normal_only || item.distribution == Distribution::normal)
        cases.push_back(prepare_case(oracle, target, group, item, 42).value());
  return cases;
}

UsualRules usual(const Mutant& mutant, const fs::path& kernel, bool normal_only) {
  const auto library = Builder(cpu()).build({kernel, "", {}}).value();
  const auto loaded = KernelLibrary::load(library.path, mutant.target).value();
  return judge_by_usual_rules(loaded.table(), services(target_named(mutant.target).services),
                              cases_of(mutant.target, normal_only));
}

// Bugs that pass a usual rule.
struct LetThrough {
  int allclose = 0, abs_or_rel = 0, most = 0;
  std::string names;

  void add(const Mutant& bug, const UsualRules& rules) {
    allclose += rules.allclose;
    abs_or_rel += rules.abs_or_rel;
    most += rules.most_within_1pct;
    if (!rules.allclose && !rules.abs_or_rel && !rules.most_within_1pct) return;
    names +=
        fmt::format("  {} {}:{}{}{}\n", bug.target, bug.name, rules.allclose ? " allclose" : "",
                    rules.abs_or_rel ? " abs-or-rel" : "", rules.most_within_1pct ? " 99%" : "");
  }
  std::string text() const {
    return fmt::format("let through allclose(1e-2) {}, abs-or-rel 1e-2 {}, 99 % within 1 % {}\n{}",
                       allclose, abs_or_rel, most, names);
  }
};

TEST(Mutation, EverySeededBugIsCaught) {
  int caught = 0;
  LetThrough everywhere, on_normal;
  for (const Mutant& bug : seeded_bugs()) {
    SCOPED_TRACE(bug.target + " " + bug.name);
    const Mutated mutated(bug);
    ASSERT_TRUE(mutated.found()) << "the text to replace is not in reference.cpp: " << bug.from;
    const VerifyRecord record = verified(bug, mutated.path());
    EXPECT_EQ(record.status, Status::mismatch) << record.reason;
    caught += record.status == Status::mismatch;
    everywhere.add(bug, usual(bug, mutated.path(), false));
    on_normal.add(bug, usual(bug, mutated.path(), true));
  }
  const size_t total = seeded_bugs().size();
  fmt::print("mutation score: {} of {} seeded bugs caught\n", caught, total);
  fmt::print("usual rules, same cases: {}usual rules, normal data only: {}", everywhere.text(),
             on_normal.text());
  EXPECT_EQ(static_cast<size_t>(caught), total);
  EXPECT_GT(everywhere.allclose + on_normal.most, 0) << "the comparison shows nothing";
}

// The mutant beside its target's champion, on the target's quick cases.
VerifyRecord verified(const Mutant& bug, const Target& target) {
  const Mutated mutated(bug);
  EXPECT_TRUE(mutated.found()) << bug.name;
  VerifyRequest request;
  request.engine = &cpu();
  request.target = &target;
  request.kernel = mutated.path();
  request.champion = target.champion(cpu()).value();
  request.seed = 42;
  return verify(request);
}

// In a sum of 32,000 terms that are rounded to bf16 the errors cancel so far that they stay within
// the bound, which must allow f32 sums with room to spare. They stand out beside the champion's.
TEST(Mutation, BFloat16InALongSumIsWorseThanTheChampion) {
  Target target = read_target(fs::path(KL_TARGETS) / "rmsnorm").value();
  target.quick = {{{{"N", 32000}, {"C", 64}}}};
  const auto& bugs = seeded_bugs();
  const auto bug = std::find_if(bugs.begin(), bugs.end(), [](const Mutant& mutant) {
    return mutant.name == "bf16_products_in_gradient" && mutant.target == "rmsnorm";
  });
  const VerifyRecord record = verified(*bug, target);
  EXPECT_EQ(record.status, Status::mismatch);
  EXPECT_EQ(record.rule, "worse-than-champion") << record.reason;
}

// The other mutants are tried on short rows, to save time; this one on the list as it is.
TEST(Mutation, AnElementThatIsLostInLongRowsOnlyIsCaught) {
  const Mutant bug{"rmsnorm", "last_of_long_row_lost", "c < plan.columns; ++c) y[c]",
                   "c + (plan.columns < 2000 ? 0 : 1) < plan.columns; ++c) y[c]"};
  const VerifyRecord record = verified(bug, read_target(fs::path(KL_TARGETS) / bug.target).value());
  EXPECT_EQ(record.status, Status::mismatch) << record.reason;
  ASSERT_TRUE(record.failing.has_value());
  EXPECT_EQ(record.failing->case_name.substr(0, 11), "list C=4097") << record.failing->case_name;
}

TEST(Mutation, EveryHonestVariantPasses) {
  int passed = 0;
  double worst = 0;
  for (const Mutant& variant : honest_variants()) {
    SCOPED_TRACE(variant.target + " " + variant.name);
    const Mutated mutated(variant);
    ASSERT_TRUE(mutated.found()) << "the text to replace is not in reference.cpp: " << variant.from;
    const VerifyRecord record = verified(variant, mutated.path());
    EXPECT_EQ(record.status, Status::ok) << record.reason;
    passed += record.status == Status::ok;
    worst = std::max(worst, record.worst_bound_fraction);
  }
  fmt::print("false alarms: {} of {} honest variants; largest error {:.2f} of its bound\n",
             honest_variants().size() - static_cast<size_t>(passed), honest_variants().size(),
             worst);
}

}  // namespace
}  // namespace kl
