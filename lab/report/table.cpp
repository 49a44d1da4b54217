#include <lab/report/table.hpp>

#include <algorithm>

namespace kl {

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) ++width;
  }
  return width;
}

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {
  for (auto& header : headers_) {
    right_.push_back(header.starts_with('>'));
    if (right_.back()) header.erase(0, 1);
  }
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(headers_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(const Style& style, std::string_view indent) const {
  std::vector<size_t> widths;
  for (const auto& header : headers_) widths.push_back(display_width(header));
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));

  std::string result;
  const auto line = [&](const std::vector<std::string>& cells, bool header) {
    std::string text(indent);
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - display_width(cells[i]), ' ');
      const std::string cell = header ? style.dim(cells[i]) : cells[i];
      text += right_[i] ? pad + cell : cell + pad;
      if (i + 1 < cells.size()) text += "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    result += text + "\n";
  };
  if (std::any_of(headers_.begin(), headers_.end(), [](const auto& h) { return !h.empty(); }))
    line(headers_, true);
  for (const auto& row : rows_) line(row, false);
  return result;
}

}  // namespace kl
