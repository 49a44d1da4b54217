#include <lab/trace/import/csv.hpp>

#include <lab/trace/import/decimal.hpp>

#include <algorithm>

namespace kl::trace {
namespace {

constexpr int kEnd = -1;
constexpr size_t kLongestCell = size_t{1} << 20;

}  // namespace

int CsvStream::peek() {
  if (at_ == buffer_.size()) {
    buffer_.resize(size_t{1} << 18);
    buffer_.resize(bytes_.read(buffer_.data(), buffer_.size()));
    at_ = 0;
    if (buffer_.empty()) return kEnd;
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

int CsvStream::get() {
  const int c = peek();
  if (c != kEnd) ++at_;
  if (c == '\n') ++lines_;
  return c;
}

bool CsvStream::next(CsvRow& row) {
  row.clear();
  if (open_quote_ || peek() == kEnd) return false;
  line_ = lines_ + 1;
  row.emplace_back();
  bool quoted = false;
  for (;;) {
    const int c = get();
    std::string& cell = row.back();
    if (c == kEnd) {
      open_quote_ = quoted;
      return !quoted;
    }
    if (quoted) {
      if (c != '"') {
        if (cell.size() < kLongestCell) cell += static_cast<char>(c);
      } else if (peek() == '"') {
        cell += '"';
        get();
      } else {
        quoted = false;
      }
    } else if (c == '"' && cell.empty()) {
      quoted = true;
    } else if (c == separator_) {
      row.emplace_back();
    } else if (c == '\n') {
      if (!cell.empty() && cell.back() == '\r') cell.pop_back();
      return true;
    } else if (cell.size() < kLongestCell) {
      cell += static_cast<char>(c);
    }
  }
}

std::optional<size_t> CsvHeader::find(std::string_view name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it == names_.end()) return std::nullopt;
  return static_cast<size_t>(it - names_.begin());
}

std::string_view CsvHeader::cell(const CsvRow& row, std::string_view name) const {
  const auto at = find(name);
  return at && *at < row.size() ? std::string_view(row[*at]) : std::string_view();
}

std::optional<int64_t> grouped_decimal(std::string_view text, int places, bool decimal_comma) {
  const size_t comma = text.rfind(','), point = text.rfind('.');
  char decimal = decimal_comma ? ',' : '.';
  if (comma != std::string_view::npos && point != std::string_view::npos) decimal = comma > point ? ',' : '.';
  // A mark that comes twice groups; one with other than three digits behind it does not.
  for (const char mark : {',', '.'}) {
    const size_t last = text.rfind(mark);
    if (last == std::string_view::npos || (comma != std::string_view::npos && point != std::string_view::npos)) continue;
    if (text.find(mark) != last) decimal = mark == ',' ? '.' : ',';
    else if (text.size() - last - 1 != 3) decimal = mark;
  }
  std::string plain;
  for (const char c : text)
    if (c == decimal) plain += '.';
    else if (c != ',' && c != '.' && c != ' ' && c != '\'') plain += c;
  return scaled_decimal(plain, places);
}

std::optional<int> places_of_unit(std::string_view unit) {
  if (unit == "ns" || unit == "nsecond") return 0;
  if (unit == "us" || unit == "µs" || unit == "\xce\xbcs" || unit == "usecond") return 3;
  if (unit == "ms" || unit == "msecond") return 6;
  if (unit == "s" || unit == "second") return 9;
  return std::nullopt;
}

}  // namespace kl::trace
