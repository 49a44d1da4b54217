// Running verify for a verb: the request filled from the context, the record kept in the ledger.
#pragma once

#include "command.hpp"

#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/verify.hpp>

namespace kl::app {

struct VerifyRun {
  const Target& target;
  fs::path kernel;
  fs::path champion;
  std::string preset;
  std::vector<SeamShape> shapes;
  std::string workspace;
  bool full = false;
  bool sanitize = false;
  std::optional<uint64_t> seed;
  std::vector<CapturedCall> captured = {};
};

VerifyRecord run_verify(const Context& context, const VerifyRun& run);
// Keeps the source by its content and appends the event.
Outcome record_verify(const Context& context, const VerifyRecord& record, const fs::path& kernel);

}  // namespace kl::app
