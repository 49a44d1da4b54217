#include <lab/report/markup.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace kl {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the UTF-8 sequence at the front that XML 1.0 can hold (section 2.2); 0: there is none.
size_t character_at(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' ? (first == 0x7F ? 0 : 1) : 0;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  uint32_t point = first & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  const bool control = point < 0xA0 || point == 0xFFFE || point == 0xFFFF || point > 0x10FFFF;
  return overlong || surrogate || control ? 0 : length;
}

// Calls `take` with each character; one that cannot stand is replaced.
template <class Take>
void each_character(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const size_t length = character_at(text);
    take(length == 0 ? kReplacement : text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
}

std::string_view markup_of(std::string_view character) {
  switch (character.front()) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return character;
  }
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string result;
  each_character(text, [&](std::string_view character) { result += markup_of(character); });
  return result;
}

std::string escape_markdown(std::string_view text) {
  std::string result;
  char before = ' ';
  size_t at = 0;
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  each_character(text, [&](std::string_view character) {
    at += character == kReplacement && !text.substr(at).starts_with(kReplacement) ? 1 : character.size();
    const char after = at < text.size() ? text[at] : ' ';
    const bool inside_a_word = character == "_" && is_letter(before) && is_letter(after);  // no emphasis there
    before = character.front();
    if (inside_a_word) {
      result += '_';
    } else if (character == "\n" || character == "\t") {
      result += ' ';
    } else if (character == "<" || character == ">" || character == "&") {
      result += markup_of(character);
    } else {
      if (std::string_view("\\`*_[]|~").find(character) != std::string_view::npos) result += '\\';
      result += character;
    }
  });
  return result;
}

std::string markdown_code(std::string_view text) {
  std::string inner;
  size_t run = 0, longest = 0;
  each_character(text, [&](std::string_view character) {
    run = character == "`" ? run + 1 : 0;
    longest = std::max(longest, run);
    // A table's column ends at a bar even in code.
    inner += character == "\n" || character == "\t" ? " " : character == "|" ? "\\|" : character;
  });
  const std::string fence(longest + 1, '`');
  const std::string pad = inner.starts_with('`') || inner.ends_with('`') ? " " : "";
  return fence + pad + inner + pad + fence;
}

}  // namespace kl
