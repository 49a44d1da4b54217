#include <lab/trace/import/json_text.hpp>

#include <array>
#include <cstdint>

namespace kl::trace {
namespace {

enum Class : uint8_t { kOther, kQuote, kOpen, kClose, kEnd };

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> classes{};
  classes['"'] = kQuote;
  classes['{'] = classes['['] = kOpen;
  classes['}'] = classes[']'] = kClose;
  classes[','] = classes[' '] = classes['\n'] = classes['\r'] = classes['\t'] = kEnd;
  return classes;
}();

uint8_t class_of(char c) { return kClasses[static_cast<unsigned char>(c)]; }

// Four hexadecimal digits; nothing for anything else.
std::optional<uint32_t> hex4(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  uint32_t value = 0;
  for (const char c : text.substr(0, 4)) {
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') digit = static_cast<uint32_t>(c - '0');
    else if (c >= 'a' && c <= 'f') digit = static_cast<uint32_t>(c - 'a' + 10);
    else if (c >= 'A' && c <= 'F') digit = static_cast<uint32_t>(c - 'A' + 10);
    else return std::nullopt;
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(std::string& to, uint32_t c) {
  if (c < 0x80) {
    to += static_cast<char>(c);
  } else if (c < 0x800) {
    to += static_cast<char>(0xc0 | c >> 6);
    to += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    to += static_cast<char>(0xe0 | c >> 12);
    to += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    to += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    to += static_cast<char>(0xf0 | c >> 18);
    to += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    to += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    to += static_cast<char>(0x80 | (c & 0x3f));
  }
}

}  // namespace

bool json_skip_value(std::string_view text, size_t& at, int& depth) {
  while (at < text.size()) {
    switch (class_of(text[at])) {
      case kQuote: {
        const size_t end = json_string_end(text, at);
        if (end == std::string_view::npos) return false;
        at = end;
        if (depth == 0) return true;
        break;
      }
      case kOpen:
        ++depth;
        ++at;
        break;
      case kClose:
        if (depth == 0) return true;  // a value is missing: nothing was skipped
        ++at;
        if (--depth == 0) return true;
        break;
      default: {
        if (depth > 0) {
          ++at;
          break;
        }
        size_t end = at;
        while (end < text.size() && class_of(text[end]) == kOther) ++end;
        if (end == text.size()) return false;
        at = end;
        return true;
      }
    }
  }
  return false;
}

std::string_view json_characters(std::string_view raw, std::string& buffer) {
  size_t slash = raw.find('\\');
  if (slash == std::string_view::npos) return raw;
  buffer.clear();
  size_t from = 0;
  for (; slash != std::string_view::npos && slash + 1 < raw.size(); slash = raw.find('\\', from)) {
    buffer.append(raw, from, slash - from);
    from = slash + 2;
    switch (const char c = raw[slash + 1]) {
      case 'n': buffer += '\n'; break;
      case 't': buffer += '\t'; break;
      case 'r': buffer += '\r'; break;
      case 'b': buffer += '\b'; break;
      case 'f': buffer += '\f'; break;
      case 'u': {
        auto code = hex4(raw.substr(from));
        if (!code) {
          buffer += "\\u";
          break;
        }
        from += 4;
        if (*code >= 0xd800 && *code < 0xdc00 && raw.substr(from, 2) == "\\u")
          if (const auto low = hex4(raw.substr(from + 2)); low && *low >= 0xdc00 && *low < 0xe000) {
            code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
            from += 6;
          }
        append_utf8(buffer, *code >= 0xd800 && *code < 0xe000 ? 0xfffd : *code);
        break;
      }
      default: buffer += c;
    }
  }
  buffer.append(raw, from);
  return buffer;
}

}  // namespace kl::trace
