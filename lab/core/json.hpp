// JSON values (nlohmann-json, keys sorted) and reading them with errors instead of exceptions.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kl {

using Json = nlohmann::json;

// Errors name the source, the byte offset and the cause.
Result<Json> parse_json(std::string_view text, std::string_view source);
Result<Json> read_json_file(const std::filesystem::path& path);
// For what quotes bytes of a file: invalid ones are replaced.
std::string valid_utf8(std::string_view text);
// One line, sorted keys; invalid UTF-8 replaced rather than thrown on.
std::string dump_line(const Json& value);
std::string dump_pretty(const Json& value);

}  // namespace kl
