// The text of JSON values, without building trees: where a value ends, the members of an object, a string's characters.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace kl::trace {

// Behind the closing quote of the string that opens at `quote`; npos when it does not close.
inline size_t json_string_end(std::string_view text, size_t quote) {
  const char* const begin = text.data();
  for (size_t from = quote + 1; from < text.size();) {
    const void* found = std::memchr(begin + from, '"', text.size() - from);
    if (found == nullptr) break;
    const auto at = static_cast<size_t>(static_cast<const char*>(found) - begin);
    size_t escapes = 0;
    while (begin[at - 1 - escapes] == '\\') ++escapes;
    if (escapes % 2 == 0) return at + 1;
    from = at + 1;
  }
  return std::string_view::npos;
}

// Moves `at` over the value that begins there. False when the text ends first: with more text behind it, call it again
// with the same `depth` and the `at` that it left.
bool json_skip_value(std::string_view text, size_t& at, int& depth);

struct JsonValue {
  std::string_view text;  // of a string: what is between its quotes, escapes and all
  bool is_string = false;
};

inline size_t json_skip_space(std::string_view text, size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) ++at;
  return at;
}

// Calls member(key, value) for every member of the object until it answers false. False when `text` is no object.
template <class Member>
bool json_members(std::string_view text, Member member) {
  size_t at = json_skip_space(text, 0);
  if (at >= text.size() || text[at] != '{') return false;
  at = json_skip_space(text, at + 1);
  if (at < text.size() && text[at] == '}') return true;
  while (at < text.size() && text[at] == '"') {
    const size_t key_end = json_string_end(text, at);
    if (key_end == std::string_view::npos) return false;
    const std::string_view key = text.substr(at + 1, key_end - at - 2);
    at = json_skip_space(text, key_end);
    if (at >= text.size() || text[at] != ':') return false;
    const size_t begin = json_skip_space(text, at + 1);
    size_t end = begin;
    int depth = 0;
    if (!json_skip_value(text, end, depth) || end == begin) return false;
    JsonValue value{text.substr(begin, end - begin), text[begin] == '"'};
    if (value.is_string) value.text = value.text.substr(1, value.text.size() - 2);
    if (!member(key, value)) return true;
    at = json_skip_space(text, end);
    if (at < text.size() && text[at] == '}') return true;
    if (at >= text.size() || text[at] != ',') return false;
    at = json_skip_space(text, at + 1);
  }
  return false;
}

// Calls element(text) for every element of the array. False when `text` is no array.
template <class Element>
bool json_elements(std::string_view text, Element element) {
  size_t at = json_skip_space(text, 0);
  if (at >= text.size() || text[at] != '[') return false;
  at = json_skip_space(text, at + 1);
  if (at < text.size() && text[at] == ']') return true;
  while (at < text.size()) {
    size_t end = at;
    int depth = 0;
    if (!json_skip_value(text, end, depth) || end == at) return false;
    element(text.substr(at, end - at));
    at = json_skip_space(text, end);
    if (at < text.size() && text[at] == ']') return true;
    if (at >= text.size() || text[at] != ',') return false;
    at = json_skip_space(text, at + 1);
  }
  return false;
}

// A string's characters: `raw`, or its escapes resolved in `buffer`.
std::string_view json_characters(std::string_view raw, std::string& buffer);

}  // namespace kl::trace
