// A folder with a target, a baseline and a candidate, and a script for the fake trainer.
#pragma once

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/json.hpp>
#include <lab/integration/integration_ab.hpp>

#include <gtest/gtest.h>

namespace kl {

class FakeSetup : public testing::Test {
 protected:
  static constexpr std::string_view kBaseline = "extern \"C\" int kernel() { return 1; }\n";
  static constexpr std::string_view kCandidate =
      "// faster\nextern \"C\" int kernel() { return 2; }\n";

  void SetUp() override {
    write("fake/kernel.cpp", kBaseline);
    write("fake/reference.cpp", "extern \"C\" int kernel() { return 3; }\n");
    write("fake/oracle.cpp", "// maths\n");
    write("candidate.cpp", kCandidate);
    script = {{"seam", "seam"}, {"counter", (root_.path() / "counter").string()}};
    spec("exact-reorder", "seam");
  }

  void write(const fs::path& name, std::string_view content) {
    ASSERT_TRUE(write_file_atomic(root_.path() / name, content).ok());
  }

  void spec(const std::string& maths, const std::string& seam) {
    write("fake/spec.toml", "key = \"fake\"\ntitle = \"Nothing.\"\nmaths = \"" + maths + "\"\n" +
                                (seam.empty() ? "" : "seam = \"" + seam + "\"\n") + R"(
[[operation]]
name = "forward"
inputs = [ { name = "x", axes = ["N"] } ]
outputs = [ { name = "y", axes = ["N"], mode = "write" } ]
[cases]
quick = [ { N = 8 } ]
)");
  }

  // How the candidate differs from the baseline.
  Json& candidate() { return script["arms"][sha256_hex(kCandidate)]; }
  Json& baseline() { return script["baseline"]; }

  fs::path script_file() {
    write("script.json", dump_pretty(script));
    return root_.path() / "script.json";
  }
  TrainerClient client() {
    return TrainerClient(KL_FAKE_TRAINER, {"--script", script_file().string()});
  }

  IntegrationRequest request() {
    catalogue_ = Catalogue::search({root_.path()});
    auto target = catalogue_.find("fake");
    EXPECT_TRUE(target.ok()) << target.error().what;
    target_ = *target;
    IntegrationRequest request;
    request.engine = *find_engine("cpu");
    request.catalogue = &catalogue_;
    request.target = &target_;
    request.candidate = root_.path() / "candidate.cpp";
    request.preset = "tiny";
    request.trainer = KL_FAKE_TRAINER;
    request.trainer_arguments = {"--script", script_file().string()};
    request.s_aa = 0.0015;
    request.skip_eval = true;
    request.samples = root_.path() / "samples";
    request.library_cache = root_.path() / "libraries";
    request.divergence_cache = root_.path() / "divergence";
    request.processor_time = [] { return std::nullopt; };  // whatever else this machine does
    return request;
  }

  TemporaryFolder root_ = *TemporaryFolder::create("kl-integration");
  Json script;
  Catalogue catalogue_;
  Target target_;
};

}  // namespace kl
