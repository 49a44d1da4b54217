// compute-sanitizer's four tools, each for a run of its own.
#pragma once

#include <lab/engine/sanitizer.hpp>

#include <filesystem>
#include <vector>

namespace kl::cuda {

// On PATH or in the toolkit; missing_tool otherwise.
Result<std::vector<Sanitizer>> sanitizers();

// With the program given, and what it said judged. For tests.
Sanitizer sanitizer_of(const std::filesystem::path& program, const std::string& tool);

}  // namespace kl::cuda
