#include <lab/trace/import/import.hpp>

#include <lab/core/files.hpp>
#include <lab/trace/import/byte_stream.hpp>
#include <lab/trace/import/json_text.hpp>
#include <lab/trace/import/sqlite_file.hpp>

#include <fmt/format.h>

namespace kl::trace {
namespace {

constexpr size_t kHead = 1 << 20;  // bytes in which every format is known
constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 12)) text += c >= ' ' && c <= '~' ? c : '.';
  return text;
}

// Behind a byte order mark and spaces; 0 when there is none.
char first_character(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const size_t at = json_skip_space(text, 0);
  return at < text.size() ? text[at] : '\0';
}

// Tables in text are known by words of their header, which need not be the first line.
using Reader = Result<TraceModel> (*)(const std::filesystem::path&);
Reader reader_of_text(std::string_view text) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (text.find('\0') != std::string_view::npos) return nullptr;
  if (has("==PROF==") || has("==ERROR== ERR_NVGPUCTRPERM") || (has("Kernel Name") && has("Process ID"))) return read_ncu_csv;
  for (const std::string_view word : {"Start_Timestamp", "End_Timestamp", "Kernel_Name", "Counter_Name", "BeginNs", "TotalDurationNs"})
    if (has(word)) return read_rocprof_csv;
  for (const std::string_view word : {"Time(%)", "Time (%)", "Total Time", "Duration (", "SKIPPED: "})
    if (has(word)) return read_nsys_stats;
  return nullptr;
}

}  // namespace

Result<TraceModel> read_trace(const std::filesystem::path& path) {
  std::error_code code;
  if (fs::is_directory(path, code))
    return make_error(Status::usage, fmt::format("{} is a folder, not a trace", path.string()), "name the trace file");
  KL_TRY(ByteStream bytes, ByteStream::open(path));
  std::string begin(kHead, '\0');
  size_t size = 0;
  while (const size_t got = bytes.read(begin.data() + size, begin.size() - size)) size += got;
  begin.resize(size);
  if (begin.empty())
    return make_error(Status::insufficient_trace_data,
                      bytes.broken().empty() ? fmt::format("{} is empty", path.string())
                                             : fmt::format("{} cannot be unpacked: {}", path.string(), bytes.broken()),
                      "capture it again");
  if (begin.starts_with(kSqliteMagic)) {
    if (bytes.packed())
      return make_error(Status::usage, fmt::format("{} is a packed SQLite file", path.string()), "unpack it: gunzip -k");
    KL_TRY(const SqliteFile file, SqliteFile::open(path));
    if (file.has("rocpd_op") || file.has("rocpd_api")) return read_rpd(file);
    if (!file.with_suffix("rocpd_string").empty()) return read_rocpd(file);
    return read_nsys_sqlite(file);
  }
  if (kSqliteMagic.starts_with(begin))
    return make_error(Status::insufficient_trace_data,
                      fmt::format("{} ends after {} bytes, inside its header", path.string(), begin.size()), "capture it again");
  constexpr std::string_view kMetadata = ".metadata.json";
  if (const std::string name = path.string(); name.ends_with(kMetadata))
    return make_error(Status::usage, fmt::format("{} says how a trace was captured, it is none", name),
                      fmt::format("name the trace: {}.sqlite", name.substr(0, name.size() - kMetadata.size())));
  if (const char first = first_character(begin); first == '{' || first == '[')
    return begin.find("\"rocprofiler-sdk-tool\"") != std::string::npos ? read_rocprof_json(path) : read_kineto(path);
  if (const auto reader = reader_of_text(begin)) return reader(path);
  return make_error(Status::usage, fmt::format("{} is no trace of a known format: it begins with \"{}\"", path.string(), printable(begin)),
                    "known formats: docs/traces.md lists them");
}

}  // namespace kl::trace
