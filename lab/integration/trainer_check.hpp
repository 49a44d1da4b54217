// Does a program speak the trainer protocol? Every question and every kind of plan of
// docs/trainer-protocol.md is tried once, on a few steps, with the champions in all seams.
#pragma once

#include <lab/integration/seam_libraries.hpp>

#include <lab/core/progress.hpp>

#include <string_view>

namespace kl {

struct ProtocolCheck {
  std::string name;
  std::string verdict;  // ok, wrong, or absent: an optional part that the program has not
  std::string found;
  std::string costs;    // of an absent one: what the lab cannot do without it

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("name", self.name, "part of the protocol");
    v("verdict", self.verdict, "ok, wrong, or absent (an optional part that is not there)");
    v("found", self.found, "what the program did");
    v("costs", self.costs, "of an absent part: what the lab cannot do without it");
  }
};

struct TrainerCheckRecord : RecordHeader {
  static constexpr std::string_view kSchema = "trainer-check";
  std::string program;
  std::vector<std::string> arguments;
  std::vector<ProtocolCheck> checks;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("program", self.program, "the trainer");
    v("arguments", self.arguments, "passed to it before the protocol's own");
    v("checks", self.checks, "in the order in which they ran; a wrong one can keep the later from running");
  }
};

struct TrainerCheckRequest {
  const Engine* engine = nullptr;
  const Catalogue* catalogue = nullptr;
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::string preset;  // empty: the weakest of the first family that has one for the engine
  double timeout_seconds = 600;  // of each run
  std::filesystem::path library_cache;  // empty: the builder's own
  Progress progress;
};

// `ok`: nothing is wrong; absent parts are listed. `rejected`: a check is wrong, and the reason names
// it. `needs_integration_adapter`: the program does not answer the first question. An Error only
// where the program is not there (missing_tool) or has no such preset (usage).
Result<TrainerCheckRecord> check_trainer(const TrainerCheckRequest& request);

}  // namespace kl
