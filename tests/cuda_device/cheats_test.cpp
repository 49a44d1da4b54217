// Kernels of activation_pointwise that are right for the wrong reason, and what verify says of each;
// honest twins, which look like them and pass.
#include "pointwise_kernel.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>

namespace kl::testing {
namespace {

struct Kernel {
  const char* name;
  std::vector<std::string> rules;  // any of these; none: an honest twin
  PointwiseText text;
};
void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }

// The last answer of either operation, and the inputs by which it is known again. Variables of the
// device's functions, which no symbol of the host's side shows: others are refused before any call.
const std::string kKept = R"(
constexpr int kMost = 1 << 14;
struct Kept {
  float answer[2][kMost];
  const float* at[2];
  float first[2][2];
};
__device__ Kept& kept() {
  static Kept all;
  return all;
}
__device__ bool same_first(const Call& c) {
  return kept().first[c.forward][0] == c.h[0] && (c.forward || kept().first[0][1] == c.dy[0]);
}
__global__ void answer(Call c, bool by_value) {
  const bool known = kept().at[c.forward] == c.h && (!by_value || same_first(c));
  const int64_t i = index();
  if (i >= c.n) return;
  if (!known) kept().answer[c.forward][i] = element(c, i);
  c.out[i] = kept().answer[c.forward][i];
}
__global__ void remember(Call c) {
  kept().at[c.forward] = c.h;
  kept().first[c.forward][0] = c.h[0];
  if (!c.forward) kept().first[0][1] = c.dy[0];
}
)";
const std::string kCounted = R"(
__device__ int& calls() {
  static int count;
  return count;
}
__global__ void count() { ++calls(); }
__global__ void skips(Call c) {
  if (calls() % 50 != 49 && index() < c.n) c.out[index()] = element(c, index());
}
__global__ void works_always(Call c) {
  const int64_t i = (index() + calls()) % (int64_t{gridDim.x} * blockDim.x);  // who does what changes
  if (i < c.n) c.out[i] = element(c, i);
}
)";
const std::string kAdds = R"(
__global__ void adds(Call c) {
  const int64_t i = index();
  if (i >= c.n) return;
  c.scratch[i] += element(c, i);
  c.out[i] = c.scratch[i];
}
)";
std::string writes(const std::string& value, const std::string& where = "i < c.n") {
  return "__global__ void f(Call c) {\n  const int64_t i = index();\n  if (" + where + ") c.out[i] = " + value + ";\n}\n";
}
const std::string kLaunch = "f<<<c.blocks, 256, 0, s>>>(c);";

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all = {
      {"honest", {}, {}},
      {"keeps_its_answer_for_a_pointer", {"beyond-bound", "wrong-later"},
       {kKept, "answer<<<c.blocks, 256, 0, s>>>(c, false); remember<<<1, 1, 0, s>>>(c);"}},
      {"keeps_its_answer_for_first_values", {"beyond-bound", "wrong-later"},
       {kKept, "answer<<<c.blocks, 256, 0, s>>>(c, true); remember<<<1, 1, 0, s>>>(c);"}},
      {"keeps_an_answer_and_never_returns_it", {},
       {kKept + "__global__ void keeps(Call c) {\n  if (index() < c.n) kept().answer[c.forward][index()] = c.out[index()];\n}\n",
        "pointwise<<<c.blocks, 256, 0, s>>>(c); keeps<<<c.blocks, 256, 0, s>>>(c);"}},
      {"launches_nothing_every_eighth_call", {"writable-static"},
       {"", "static int calls = 0; if (++calls % 8 != 0) pointwise<<<c.blocks, 256, 0, s>>>(c);"}},
      {"counts_in_a_variable_of_the_device", {"writable-static"},
       {"__device__ int calls;\n__global__ void skips(Call c) {\n  if (calls % 50 != 49 && index() < c.n) "
        "c.out[index()] = element(c, index());\n  if (index() == 0) ++calls;\n}\n",
        "skips<<<c.blocks, 256, 0, s>>>(c);"}},
      {"looks_up_constants", {},
       {"__constant__ const float kTwo[] = {1, 2};\n__device__ const float kOne[] = {1, 1};\n"
        "__global__ void f(Call c) {\n  const int64_t i = index();\n"
        "  if (i < c.n) c.out[i] = element(c, i) * kOne[i & 1] * kTwo[i & 1] / kTwo[i & 1];\n}\n", kLaunch}},
      {"skips_every_fiftieth_call_on_the_device",
       {"unwritten-output", "wrong-under-capture", "depends-on-old-contents", "wrong-later"},
       {kCounted, "skips<<<c.blocks, 256, 0, s>>>(c); count<<<1, 1, 0, s>>>();"}},
      {"counts_its_calls_and_always_works", {},
       {kCounted, "works_always<<<c.blocks, 256, 0, s>>>(c); count<<<1, 1, 0, s>>>();"}},
      {"adds_to_scratch_that_it_takes_for_zero", {"beyond-bound", "unwritten-output"},
       {kAdds, "adds<<<c.blocks, 256, 0, s>>>(c);", "as_input"}},
      {"adds_to_scratch_that_it_cleared", {},
       {kAdds, "cudaMemsetAsync(c.scratch, 0, c.n * sizeof(float), s); adds<<<c.blocks, 256, 0, s>>>(c);", "as_input"}},
      {"takes_the_larger_of_answer_and_old_contents", {"depends-on-old-contents"},
       {writes("fmaxf(c.out[i], element(c, i))"), kLaunch}},
      {"takes_the_smaller_of_answer_and_old_contents", {"depends-on-old-contents"},
       {writes("fminf(c.out[i], element(c, i))"), kLaunch}},
      {"writes_a_nan", {"beyond-bound"}, {writes("i == c.n / 2 ? nanf(\"\") : element(c, i)"), kLaunch}},
      {"leaves_the_last_element", {"unwritten-output"}, {writes("element(c, i)", "i < c.n - 1"), kLaunch}},
      // Its twin is the honest one: a NaN that comes in has to come out.
      {"draws_nan_away", {"beyond-bound"},
       {writes("c.forward ? fmaxf(c.h[i], 0) * fmaxf(c.h[i], 0) : 2 * fmaxf(c.h[i], 0) * c.dy[i]"), kLaunch}},
      {"pins_the_cache_by_its_stream", {"forbidden-symbol"},
       {"", R"(cudaStreamAttrValue v{};
  v.accessPolicyWindow = {const_cast<float*>(c.h), c.n * sizeof(float), 1.0f, cudaAccessPropertyPersisting,
                          cudaAccessPropertyStreaming};
  cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v);
  pointwise<<<c.blocks, 256, 0, s>>>(c);)"}},
  };
  return all;
}

class Cheat : public ::testing::TestWithParam<Kernel> {
 protected:
  static void SetUpTestSuite() {
    if (!cuda::Toolkit::find().ok()) return;
    std::vector<PointwiseText> texts;
    for (const Kernel& kernel : kernels()) texts.push_back(kernel.text);
    build_all(texts);
  }
};

// Verify must find what they do, not what they are built from.
TEST_P(Cheat, uses_only_what_a_kernel_may) {
  KL_NEEDS_NVCC();
  const Kernel& kernel = GetParam();
  const auto built = Builder(cuda_engine()).build({kernel_file(kernel.text.source()), "", {}});
  ASSERT_TRUE(built.ok()) << built.error().what;
  const auto broken = built->broken_rule();
  const bool refused = kernel.rules == std::vector<std::string>{"forbidden-symbol"} ||
                       kernel.rules == std::vector<std::string>{"writable-static"};
  ASSERT_EQ(broken.has_value(), refused) << (broken ? broken->proof : "");
  if (refused) {
    EXPECT_EQ(broken->rule, kernel.rules[0]);
  }
}

TEST_P(Cheat, gets_the_rule_it_breaks) {
  KL_NEEDS_DEVICE();
  const Kernel& kernel = GetParam();
  const VerifyRecord record = verified(kernel.text);
  const std::string told = std::string(to_string(record.status)) + " " + record.reason;
  if (kernel.rules.empty()) {
    EXPECT_EQ(record.status, Status::ok) << told;
    EXPECT_EQ(record.cases_run, record.cases_planned);
    EXPECT_GT(record.elements_checked, 0);
    return;
  }
  EXPECT_NE(record.status, Status::ok);
  EXPECT_NE(record.status, Status::error) << told;
  EXPECT_THAT(kernel.rules, ::testing::Contains(record.rule)) << told;
}
INSTANTIATE_TEST_SUITE_P(Device, Cheat, ::testing::ValuesIn(kernels()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace kl::testing
