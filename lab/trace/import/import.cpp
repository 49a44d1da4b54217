#include <lab/trace/import/import.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

#include <fstream>

namespace kl::trace {
namespace {

constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 12)) text += c >= ' ' && c <= '~' ? c : '.';
  return text;
}

}  // namespace

Result<TraceModel> read_trace(const std::filesystem::path& path) {
  std::error_code code;
  if (fs::is_directory(path, code))
    return make_error(Status::usage, fmt::format("{} is a folder, not a trace", path.string()), "name the trace file");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return make_error(Status::usage, fmt::format("cannot read the trace {}", path.string()), "check the path");
  char head[16] = {};
  file.read(head, sizeof head);
  const std::string_view begin(head, static_cast<size_t>(file.gcount()));
  if (begin.empty())
    return make_error(Status::insufficient_trace_data, fmt::format("{} is empty", path.string()), "capture it again");
  if (begin == kSqliteMagic) return read_sqlite_trace(path);
  if (kSqliteMagic.starts_with(begin))
    return make_error(Status::insufficient_trace_data,
                      fmt::format("{} ends after {} bytes, inside its header", path.string(), begin.size()), "capture it again");
  constexpr std::string_view kMetadata = ".metadata.json";
  if (const std::string name = path.string(); name.ends_with(kMetadata))
    return make_error(Status::usage, fmt::format("{} says how a trace was captured, it is none", name),
                      fmt::format("name the trace: {}.sqlite", name.substr(0, name.size() - kMetadata.size())));
  return make_error(Status::usage, fmt::format("{} is no trace of a known format: it begins with \"{}\"", path.string(), printable(begin)),
                    "known formats: what kernel-lab capture writes, and SQLite exports of Nsight Systems");
}

}  // namespace kl::trace
