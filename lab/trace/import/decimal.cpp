#include <lab/trace/import/decimal.hpp>

#include <limits>

namespace kl::trace {
namespace {

constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The exponent behind 'e'; nothing for what is none.
std::optional<int> exponent_of(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty()) return std::nullopt;
  int value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return std::nullopt;
    if (value < 10'000) value = 10 * value + (c - '0');
  }
  return negative ? -value : value;
}

}  // namespace

std::optional<int64_t> scaled_decimal(std::string_view text, int places) {
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  uint64_t digits = 0;
  int power = places;  // of ten, that digits are to be multiplied with
  bool any = false, fraction = false, cut = false;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (!is_digit(c)) break;
    any = true;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (digits <= (kMost - digit) / 10) {
      digits = 10 * digits + digit;
      power -= fraction;
    } else {
      power += !fraction;  // does not fit any more: only its place counts
      cut = cut || !fraction;
    }
  }
  if (!any) return std::nullopt;
  if (i < text.size()) {
    if (text[i] != 'e' && text[i] != 'E') return std::nullopt;
    const auto exponent = exponent_of(text.substr(i + 1));
    if (!exponent) return std::nullopt;
    power += *exponent;
  }
  if (cut && power > 0) return std::nullopt;
  for (; power > 0 && digits > 0; --power) {
    if (digits > kMost / 10) return std::nullopt;
    digits *= 10;
  }
  for (; power < -1 && digits > 0; ++power) digits /= 10;
  if (power == -1) digits = (digits + 5) / 10;
  return negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits);
}

}  // namespace kl::trace
