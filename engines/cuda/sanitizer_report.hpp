// What compute-sanitizer wrote into its log.
#pragma once

#include <lab/engine/sanitizer.hpp>

#include <string_view>

namespace kl::cuda {

struct SanitizerReport {
  std::vector<SanitizerFinding> findings;
  std::vector<SanitizerFinding>
      warnings;                // hazards that the tool itself takes for possibly intended
  bool summarised = false;     // it came to its end
  int64_t errors_counted = 0;  // of its own summary
  std::string trouble;         // why it could not watch: its own "Error:" line
};

SanitizerReport read_sanitizer_report(std::string_view log);

}  // namespace kl::cuda
