#include <lab/core/json.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

namespace kl {

std::string valid_utf8(std::string_view text) { return Json::parse(dump_line(Json(text))).get<std::string>(); }

Result<Json> parse_json(std::string_view text, std::string_view source) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    return make_error(Status::error,
                      fmt::format("{}: not JSON at byte {}: {}", source, e.byte, valid_utf8(e.what())),
                      "restore the file, or delete it and run the command that writes it");
  }
}

Result<Json> read_json_file(const std::filesystem::path& path) {
  KL_TRY(const std::string text, read_file(path));
  return parse_json(text, path.string());
}

std::string dump_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string dump_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kl
