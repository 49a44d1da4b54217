// A report as plain blocks in the order they are read. HTML and Markdown are printers of it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kl {

// What a word means for the kernel; never told by colour alone.
enum class Tone : uint8_t { plain, good, bad, warn, code };

struct Cell {
  std::string text;
  Tone tone = Tone::plain;
  std::string anchor;  // id of a section of this page; empty: no link

  Cell(std::string t = {}, Tone n = Tone::plain, std::string a = {})  // NOLINT: tables are lists of words
      : text(std::move(t)), tone(n), anchor(std::move(a)) {}
  Cell(const char* t) : text(t) {}  // NOLINT
};

struct PageTable {
  std::string caption;
  std::vector<std::string> headers;  // '>' in front: numbers, to the right
  std::vector<std::vector<Cell>> rows;
  bool folded = false;  // the numbers behind a drawing: one opens them; print shows them

  explicit PageTable(std::string c, std::vector<std::string> h, bool f = false)
      : caption(std::move(c)), headers(std::move(h)), folded(f) {}
  void row(std::vector<Cell> cells) {
    cells.resize(headers.size());
    rows.push_back(std::move(cells));
  }
};

struct Paragraph {
  std::string text;
  Tone tone = Tone::plain;
};

struct List {
  std::string title;
  std::vector<std::string> items;
};

struct CommandBlock {
  std::string command;
  std::string why;
};

struct Drawing {
  std::string svg;      // one element, made by lab/report/svg.hpp
  std::string caption;
  std::string words;    // what it shows, for who cannot see it
};

using Block = std::variant<Paragraph, List, CommandBlock, PageTable, Drawing>;

struct Section {
  std::string id;
  std::string title;
  std::vector<Block> blocks;
};

struct Page {
  std::string title;
  std::string subtitle;
  Cell badge;
  std::vector<Section> sections;
  std::string footer;
};

// One file that needs nothing beside it: no network, no script. Well-formed XML after its doctype.
std::string page_html(const Page& page);
// Drawings in words; the tables behind them hold every number.
std::string page_markdown(const Page& page);

}  // namespace kl
