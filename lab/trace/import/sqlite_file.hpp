// A SQLite file of another tool's: its tables by name, their columns by name, what cannot be read as gaps.
#pragma once

#include <lab/trace/import/finish.hpp>
#include <lab/trace/sqlite.hpp>

#include <filesystem>
#include <set>
#include <vector>

namespace kl::trace {

// Columns that are not required read as NULL where they are absent.
struct Column {
  std::string_view name;
  bool required = true;
};

class SqliteFile {
 public:
  // `insufficient_trace_data` for what is cut short or damaged so that its list of tables cannot be read.
  static Result<SqliteFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  // Why the end of the file is missing, if it is.
  const std::string& cut_short() const { return cut_short_; }
  bool has(const std::string& table) const { return tables_.contains(table); }
  // The tables of that name and of its later versions: "K", "K_V2", "K_V3".
  std::vector<std::string> versions_of(const std::string& table) const;
  // The tables called `stem`, or `stem`, '_' and a unique id.
  std::vector<std::string> with_suffix(const std::string& stem) const;

  // For memory to be asked for once: the table's largest row id, but no more rows than the file has room for.
  size_t expected_rows(const std::string& table) const;

  // Calls row(statement) for every row of the table, if there is one; it answers false for one that makes no sense.
  // What is missing, damaged or senseless becomes a gap of `model`.
  template <class Row>
  void rows(TraceModel& model, const std::string& table, const std::vector<Column>& wanted, Row row) const {
    if (!has(table)) return;
    std::string missing;
    const std::string text = select(table, wanted, missing);
    if (!missing.empty()) return unreadable(model, "table " + table + " has no column " + missing + ": not read");
    Statement statement(database_.get(), text);
    if (!statement.good()) return unreadable(model, "table " + table + ": " + error());
    int64_t read = 0, senseless = 0;
    int step = 0;
    while ((step = statement.step()) == SQLITE_ROW) {
      ++read;
      if (!row(statement)) ++senseless;
    }
    if (step != SQLITE_DONE)
      unreadable(model, "table " + table + " cannot be read beyond row " + std::to_string(read) + ": " + error());
    add_left_out(model, "table " + table, senseless, read);
  }

 private:
  std::set<std::string> columns_of(std::string_view table) const;
  explicit SqliteFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::string select(const std::string& table, const std::vector<Column>& wanted, std::string& missing) const;
  std::string error() const { return sqlite3_errmsg(database_.get()); }
  static void unreadable(TraceModel& model, std::string what) { model.gaps.push_back({GapKind::unreadable, 0, std::move(what)}); }

  std::filesystem::path path_;
  Database database_;
  std::set<std::string> tables_;
  std::string cut_short_;
  int64_t bytes_ = 0;
};

inline std::optional<Span> span_of(const Statement& s, int begin, int end) { return sensible_span(s.integer(begin), s.integer(end)); }
inline int64_t or_none(const Statement& s, int column) { return s.integer(column).value_or(kNone); }

}  // namespace kl::trace
