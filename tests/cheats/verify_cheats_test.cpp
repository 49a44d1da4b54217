// Every kernel of kernels/ against verify. The comment at the top of each says which line of the list of
// cheats it is, and what must come of it: `// ... | status | rule, or another rule`.
#include <lab/core/files.hpp>
#include <lab/verify/verify.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace kl {
namespace {

struct Cheat {
  std::string name;
  fs::path file;
  std::string what;
  std::string status;
  std::vector<std::string> rules;
};

void PrintTo(const Cheat& cheat, std::ostream* out) { *out << cheat.name; }

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" /");
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(trimmed(part));
  return parts;
}

// The comment a file begins with, as one line.
std::string leading_comment(const std::string& text) {
  std::istringstream in(text);
  std::string joined;
  for (std::string line; std::getline(in, line) && line.starts_with("//");)
    joined += (joined.empty() ? "" : " ") + trimmed(line);
  return joined;
}

std::vector<Cheat> read_cheats() {
  std::vector<Cheat> cheats;
  for (const auto& entry : fs::directory_iterator(fs::path(KL_CHEATS) / "kernels")) {
    const std::string text = read_file(entry.path()).value();
    auto parts = split(leading_comment(text), '|');
    parts.resize(3);
    cheats.push_back(
        {entry.path().stem().string(), entry.path(), parts[0], parts[1], split(parts[2], ',')});
  }
  std::sort(cheats.begin(), cheats.end(),
            [](const Cheat& a, const Cheat& b) { return a.name < b.name; });
  return cheats;
}

// Few shapes: two odd ones and the trainer's.
Target small_target() {
  Target target = read_target(fs::path(KL_TARGETS) / "activation_pointwise").value();
  target.quick = {{{{"N", 3}, {"C", 3}}, "f32"}, {{{"N", 5}, {"C", 127}}, "f32"}};
  return target;
}

class VerifyCheats : public testing::TestWithParam<Cheat> {};

TEST_P(VerifyCheats, GetsTheStatusItsFirstLineNames) {
  const Cheat& cheat = GetParam();
  auto folder = TemporaryFolder::create("kernel-lab-cheat").value();
  const fs::path source = folder.path() / "kernel.cpp";
  const std::string text = read_file(fs::path(KL_CHEATS) / "kept_memory.inc").value() + "\n" +
                           read_file(fs::path(KL_CHEATS) / "pointwise.inc").value() + "\n" +
                           read_file(cheat.file).value();
  ASSERT_TRUE(write_file_atomic(source, text).ok());

  const Target target = small_target();
  const Engine* engine = find_engine("cpu").value();
  SeamShape trainer;
  trainer.axes = {{"N", 32}, {"C", 64}};
  VerifyRequest request;
  request.engine = engine;
  request.target = &target;
  request.kernel = source;
  request.champion = target.champion(*engine).value();
  request.trainer_shapes = {trainer};
  request.seed = 20261201;
  const VerifyRecord record = verify(request);

  EXPECT_EQ(to_string(record.status), cheat.status) << cheat.what << "\n" << record.reason;
  if (cheat.status == "ok") {
    EXPECT_EQ(record.cases_run, record.cases_planned);
    EXPECT_GT(record.elements_checked, 0);
    return;
  }
  EXPECT_TRUE(std::find(cheat.rules.begin(), cheat.rules.end(), record.rule) != cheat.rules.end())
      << "rule " << record.rule << ": " << record.proof;
  EXPECT_FALSE(record.proof.empty());
  EXPECT_EQ(record.failing.has_value(), record.status == Status::mismatch);
}

INSTANTIATE_TEST_SUITE_P(Kernels, VerifyCheats, testing::ValuesIn(read_cheats()),
                         [](const auto& cheat) { return cheat.param.name; });

// A list without cheats or without honest kernels would prove nothing.
TEST(VerifyCheatsList, HasCheatsAndHonestTwins) {
  const auto cheats = read_cheats();
  const auto honest =
      std::count_if(cheats.begin(), cheats.end(), [](const Cheat& c) { return c.status == "ok"; });
  EXPECT_GE(honest, 8);
  EXPECT_GE(static_cast<int64_t>(cheats.size()) - honest, 30);
}

}  // namespace
}  // namespace kl
