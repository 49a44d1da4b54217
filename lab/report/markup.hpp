// Text that comes from ledgers, kernels and people, made safe to stand in a document.
#pragma once

#include <string>
#include <string_view>

namespace kl {

// For text and attributes of HTML, XHTML and SVG. What XML cannot hold (control characters, bytes
// that are no UTF-8) becomes U+FFFD.
std::string escape_markup(std::string_view text);
// For running text and table cells of Markdown, on one line.
std::string escape_markdown(std::string_view text);
// A code span, whatever backticks are in it.
std::string markdown_code(std::string_view text);

}  // namespace kl
