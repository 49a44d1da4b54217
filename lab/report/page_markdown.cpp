#include <lab/report/markup.hpp>
#include <lab/report/page.hpp>

#include <fmt/format.h>

namespace kl {
namespace {

std::string cell_text(const Cell& cell) {
  if (cell.text.empty()) return {};
  const std::string text = cell.tone == Tone::code ? markdown_code(cell.text) : escape_markdown(cell.text);
  return cell.tone == Tone::plain || cell.tone == Tone::code ? text : "**" + text + "**";
}

struct Printer {
  std::string operator()(const Paragraph& p) const {
    return (p.tone == Tone::plain ? escape_markdown(p.text) : "**" + escape_markdown(p.text) + "**") + "\n";
  }
  std::string operator()(const List& list) const {
    std::string text = escape_markdown(list.title) + "\n\n";
    for (const auto& item : list.items) text += "- " + escape_markdown(item) + "\n";
    return text;
  }
  std::string operator()(const CommandBlock& block) const {
    return markdown_code(block.command) + (block.why.empty() ? "" : " — " + escape_markdown(block.why)) + "\n";
  }
  std::string operator()(const PageTable& table) const {
    std::string text = "**" + escape_markdown(table.caption) + "**\n\n|";
    std::string rule = "\n|";
    for (const auto& header : table.headers) {
      const bool number = header.starts_with('>');
      text += fmt::format(" {} |", escape_markdown(number ? header.substr(1) : header));
      rule += number ? "---:|" : "---|";
    }
    text += rule + "\n";
    for (const auto& row : table.rows) {
      text += "|";
      for (const auto& cell : row) text += fmt::format(" {} |", cell_text(cell));
      text += "\n";
    }
    return text;
  }
  std::string operator()(const Drawing& drawing) const {
    return "*" + escape_markdown(drawing.caption) + "* " + escape_markdown(drawing.words) + "\n";
  }
};

}  // namespace

std::string page_markdown(const Page& page) {
  std::string text = fmt::format("# {}\n\n{}\n\n{}\n", escape_markdown(page.title), escape_markdown(page.subtitle),
                                 cell_text(page.badge));
  for (const auto& section : page.sections) {
    text += fmt::format("\n## {}\n", escape_markdown(section.title));
    for (const auto& block : section.blocks) text += "\n" + std::visit(Printer{}, block);
  }
  return text + "\n" + escape_markdown(page.footer) + "\n";
}

}  // namespace kl
