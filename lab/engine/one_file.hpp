// A kernel is one file: what a compiler read beside it is found in the make rules it writes.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kl {

// The first file that was read from outside `folders`. Relative names, as the assembler's for the
// source itself, are of the working folder `work`. A rule that is not there is itself the answer.
std::optional<std::filesystem::path> read_from_outside(const std::filesystem::path& rule_file,
                                                       const std::filesystem::path& work,
                                                       const std::vector<std::filesystem::path>& folders);
Error reads_another_file(const std::string& shown, const std::filesystem::path& outside);

// A compiler's message, cut to what a person reads.
std::string trimmed_message(const std::string& text);

}  // namespace kl
