// The difference of two sources as a unified patch.
#pragma once

#include <lab/core/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace kl {

struct SourceDiff {
  std::string text;  // unified; empty when the sources are the same
  int64_t lines_added = 0;
  int64_t lines_removed = 0;
};

// Labels are the file names of the patch: "a/targets/rmsnorm/kernel.cpp".
Result<SourceDiff> diff_sources(std::string_view before, std::string_view after,
                                const std::string& before_label, const std::string& after_label);

}  // namespace kl
