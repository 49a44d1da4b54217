// Comma-separated values as profilers print them: quoted or not, with program output before and after.
#pragma once

#include <lab/trace/import/byte_stream.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kl::trace {

using CsvRow = std::vector<std::string>;

// Rows in order, however large the file. Cells are separated by ',', or by ';' once a header says so; a quoted cell may
// hold separators, line ends and doubled quotes.
class CsvStream {
 public:
  explicit CsvStream(ByteStream bytes) : bytes_(std::move(bytes)) {}
  // False at the end. An empty line is a row of one empty cell.
  bool next(CsvRow& row);
  void separate_by(char separator) { separator_ = separator; }
  int64_t line() const { return line_; }  // of the row that next() gave, from 1
  // Why the file ended early: packed data that breaks, or a quote that never closes. Empty otherwise.
  std::string broken() const { return open_quote_ ? "a quoted cell never ends" : bytes_.broken(); }

 private:
  int get();
  int peek();

  ByteStream bytes_;
  std::string buffer_;
  size_t at_ = 0;
  char separator_ = ',';
  int64_t line_ = 0, lines_ = 0;
  bool open_quote_ = false;
};

// Columns by name.
class CsvHeader {
 public:
  CsvHeader() = default;
  explicit CsvHeader(CsvRow names) : names_(std::move(names)) {}
  bool has(std::string_view name) const { return find(name).has_value(); }
  std::optional<size_t> find(std::string_view name) const;
  // The cell in that column; empty where the column or the cell is absent.
  std::string_view cell(const CsvRow& row, std::string_view name) const;
  const CsvRow& names() const { return names_; }

 private:
  CsvRow names_;
};

// "1,048,576", "1.048.576,5" or "12.5" in units of 10^-places. With one kind of mark, once, and three digits behind it, a
// comma groups unless `decimal_comma`, and a point is the decimal mark unless that.
std::optional<int64_t> grouped_decimal(std::string_view text, int places, bool decimal_comma = false);
// Decimal places from a unit to nanoseconds: ns 0, us or µs 3, ms 6, s 9; nothing for any other.
std::optional<int> places_of_unit(std::string_view unit);

}  // namespace kl::trace
