// SQLite, as far as traces need it: handles that close themselves, statements, errors with their text.
#pragma once

#include <lab/core/result.hpp>

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kl::trace {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

struct CloseStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

class Statement {
 public:
  // `good()` is false when the text does not fit the database; the database then has the error.
  Statement(sqlite3* database, std::string_view text) {
    sqlite3_stmt* raw = nullptr;
    sqlite3_prepare_v2(database, text.data(), static_cast<int>(text.size()), &raw, nullptr);
    statement_.reset(raw);
  }
  bool good() const { return statement_ != nullptr; }
  int step() { return sqlite3_step(statement_.get()); }
  void reset() { sqlite3_reset(statement_.get()); }

  void bind(int at, int64_t value) { sqlite3_bind_int64(statement_.get(), at, value); }
  void bind(int at, std::string_view text) {
    sqlite3_bind_text(statement_.get(), at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  void bind_null(int at) { sqlite3_bind_null(statement_.get(), at); }

  bool null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  // Nothing when the column holds anything but an integer.
  std::optional<int64_t> integer(int column) const {
    sqlite3_value* value = sqlite3_column_value(statement_.get(), column);  // found once for both questions
    if (sqlite3_value_type(value) != SQLITE_INTEGER) return std::nullopt;
    return sqlite3_value_int64(value);
  }
  std::string text(int column) const {
    const unsigned char* raw = sqlite3_column_text(statement_.get(), column);
    if (raw == nullptr) return {};
    return {reinterpret_cast<const char*>(raw), static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
  }

 private:
  std::unique_ptr<sqlite3_stmt, CloseStatement> statement_;
};

}  // namespace kl::trace
