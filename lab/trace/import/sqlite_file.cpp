#include <lab/trace/import/sqlite_file.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kl::trace {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Result<SqliteFile> SqliteFile::open(const std::filesystem::path& path) {
  SqliteFile file(path);
  sqlite3* raw = nullptr;
  std::string address = "file:";
  for (const char c : std::filesystem::absolute(path).string())
    if (c == '%' || c == '?' || c == '#') address += fmt::format("%{:02x}", c);
    else address += c;
  // Immutable: a trace on read-only media has no place for locks. Without SQLite's own mutexes: one thread reads it.
  const int code = sqlite3_open_v2((address + "?immutable=1").c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  file.database_.reset(raw);
  const auto unopened = [&] {
    return make_error(Status::insufficient_trace_data,
                      fmt::format("{} cannot be opened: {}", path.string(), raw != nullptr ? file.error() : "out of memory"),
                      "it is cut short or damaged: capture or export it again");
  };
  if (code != SQLITE_OK) return unopened();
  // A file from elsewhere: nothing in it is run, so views are not looked at.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  Statement list(raw, "SELECT name FROM sqlite_master WHERE type = 'table'");
  if (!list.good()) return unopened();
  int step = 0;
  while ((step = list.step()) == SQLITE_ROW) file.tables_.insert(list.text(0));
  if (step != SQLITE_DONE) return unopened();
  // A page cut short reads as if it ended in zeros, without any error.
  Statement page(raw, "PRAGMA page_size");
  std::error_code code_of_size;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, code_of_size));
  if (!code_of_size) file.bytes_ = bytes;
  if (page.good() && page.step() == SQLITE_ROW && !code_of_size && bytes % page.integer(0).value_or(1) != 0)
    file.cut_short_ = fmt::format("the file ends after {} bytes, inside a page: it is cut short", bytes);
  return file;
}

std::vector<std::string> SqliteFile::versions_of(const std::string& table) const {
  std::vector<std::string> found;
  for (const std::string& name : tables_) {
    if (!name.starts_with(table)) continue;
    const std::string_view rest = std::string_view(name).substr(table.size());
    const bool version = rest.starts_with("_V") && rest.size() > 2 && std::all_of(rest.begin() + 2, rest.end(), is_digit);
    if (rest.empty() || version) found.push_back(name);
  }
  return found;
}

std::vector<std::string> SqliteFile::with_suffix(const std::string& stem) const {
  std::vector<std::string> found;
  for (const std::string& name : tables_) {
    if (!name.starts_with(stem)) continue;
    const std::string_view rest = std::string_view(name).substr(stem.size());
    // "_0000c2f4_9b3a_…": hexadecimal digits in groups, as long as a unique id.
    const bool id = rest.size() > 30 && rest[0] == '_' && rest.find_first_not_of("0123456789abcdefABCDEF_") == std::string_view::npos;
    if (rest.empty() || id) found.push_back(name);
  }
  return found;
}

size_t SqliteFile::expected_rows(const std::string& table) const {
  constexpr int64_t kLeastRow = 16;  // bytes: a row's header and two moments
  Statement last(database_.get(), fmt::format("SELECT max(rowid) FROM \"{}\"", table));
  if (!has(table) || !last.good() || last.step() != SQLITE_ROW) return 0;
  return static_cast<size_t>(std::clamp<int64_t>(last.integer(0).value_or(0), 0, bytes_ / kLeastRow));
}

std::set<std::string> SqliteFile::columns_of(std::string_view table) const {
  std::set<std::string> columns;
  Statement info(database_.get(), "SELECT name FROM pragma_table_info(?)");
  if (info.good()) info.bind(1, table);
  while (info.good() && info.step() == SQLITE_ROW) columns.insert(info.text(0));
  return columns;
}

std::string SqliteFile::select(const std::string& table, const std::vector<Column>& wanted, std::string& missing) const {
  const std::set<std::string> there = columns_of(table);
  std::vector<std::string> selected;
  for (const Column& column : wanted) {
    const bool found = there.contains(std::string(column.name));
    if (!found && column.required) missing = column.name;
    selected.push_back(found ? fmt::format("\"{}\"", column.name) : "NULL");
  }
  return fmt::format("SELECT {} FROM \"{}\"", fmt::join(selected, ", "), table);
}

}  // namespace kl::trace
