#include <lab/core/record_file.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kl {
namespace {

struct AnyRecord : RecordHeader {
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
  }
};

std::string text_of(const Json& json, const char* field) {
  const auto it = json.is_object() ? json.find(field) : json.end();
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

Result<RecordFile> read_record_file(const fs::path& file, std::span<const std::string_view> schemas, const std::string& remedy) {
  const auto refused = [&](const std::string& why) { return make_error(Status::usage, why, remedy); };
  auto json = read_json_file(file);
  if (!json.ok()) return refused(json.error().what);
  const std::string wanted = fmt::format("{}", fmt::join(schemas, " or "));
  const std::string schema = text_of(*json, "schema");
  if (schema.empty()) return refused(fmt::format("{} is no record of the lab, and none of {}", file.string(), wanted));
  if (std::find(schemas.begin(), schemas.end(), schema) == schemas.end())
    return refused(fmt::format("{} is a record of {}, not of {}", file.string(), schema, wanted));
  const auto header = from_json<AnyRecord>(*json);
  if (!header.ok()) return refused(fmt::format("{}: {}", file.string(), header.error().what));
  if (header->schema_version != RecordHeader{}.schema_version)
    return refused(fmt::format("{} is a record of {} of version {}: this lab reads version {}", file.string(), schema,
                               header->schema_version, RecordHeader{}.schema_version));
  return RecordFile{file, *header, std::move(*json)};
}

}  // namespace kl
