#include <lab/target/axes.hpp>

#include <fmt/format.h>

#include <charconv>

namespace kl {

namespace {

using Axes = std::map<std::string, int64_t>;

// The text before the separator; `text` keeps what comes after it.
std::string_view take_until(char separator, std::string_view& text) {
  const size_t at = text.find(separator);
  const std::string_view first = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return first;
}

Result<int64_t> factor_length(std::string_view factor, const Axes& axes) {
  int64_t length = 0;
  const auto parsed = std::from_chars(factor.data(), factor.data() + factor.size(), length);
  if (parsed.ec == std::errc{} && parsed.ptr == factor.data() + factor.size()) return length;
  const auto named = axes.find(std::string(factor));
  if (named != axes.end()) return named->second;
  return make_error(Status::unsupported_target,
                    fmt::format("axis \"{}\" has no length in this case", factor),
                    "give every axis a length in the case lists and the preset");
}

}  // namespace

Result<int64_t> axis_length(std::string_view text, const Axes& axes) {
  if (text.empty()) return 1;
  int64_t sum = 0;
  while (!text.empty()) {
    std::string_view factors = take_until('+', text);
    int64_t product = 1;
    do {
      KL_TRY(const int64_t length, factor_length(take_until('*', factors), axes));
      product *= length;
    } while (!factors.empty());
    sum += product;
  }
  return sum;
}

}  // namespace kl
