// SHA-256, the identity of everything the lab measures.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace kl {

std::string sha256_hex(std::string_view content);
Result<std::string> sha256_file(const std::filesystem::path& path);
// The hash of several fields, unambiguous whatever they contain.
std::string sha256_fields(std::initializer_list<std::string_view> fields);

}  // namespace kl
