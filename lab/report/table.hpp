// Plain text tables: columns as wide as their widest cell, numbers to the right.
#pragma once

#include <lab/report/style.hpp>

#include <string>
#include <vector>

namespace kl {

class Table {
 public:
  // A header that starts with '>' is right-aligned (numbers), without the mark.
  explicit Table(std::vector<std::string> headers);
  // Missing cells are empty; an empty header row is not printed.
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text(const Style& style, std::string_view indent = "  ") const;

 private:
  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns a UTF-8 string takes in a terminal, escape sequences not counted.
size_t display_width(std::string_view text);

}  // namespace kl
