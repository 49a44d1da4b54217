#include <apps/command_line/number_checks.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

namespace kl::app {
namespace {

template <class T>
std::optional<T> whole(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// A message quotes no more of a word than a person would read.
std::string shown(const std::string& text) {
  constexpr size_t kMost = 40;
  return text.size() <= kMost ? fmt::format("'{}'", text) : fmt::format("'{}…'", text.substr(0, kMost));
}

}  // namespace

CLI::Validator seconds_check(double most) {
  return {[most](std::string& text) -> std::string {
            const auto value = whole<double>(text);
            if (value && std::isfinite(*value) && *value > 0 && *value <= most) return {};
            return fmt::format("{} is no number of seconds above 0 and up to {:.0f}", shown(text), most);
          },
          ""};
}

CLI::Validator whole_number_check(int64_t least, int64_t most) {
  return {[least, most](std::string& text) -> std::string {
            const auto value = whole<int64_t>(text);
            if (value && *value >= least && *value <= most) return {};
            return fmt::format("{} is no whole number from {} to {}", shown(text), least, most);
          },
          fmt::format("{} to {}", least, most)};
}

CLI::Validator seed_check() {
  return {[](std::string& text) -> std::string {
            if (whole<uint64_t>(text)) return {};
            return fmt::format("{} is no whole number from 0 to 2^64 - 1", shown(text));
          },
          ""};
}

}  // namespace kl::app
