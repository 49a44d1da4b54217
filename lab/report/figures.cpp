#include <lab/report/figures.hpp>

#include <fmt/format.h>

#include <cmath>

namespace kl {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  const double size = std::fabs(seconds);
  if (size < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (size < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  if (size < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (size < 120) return fmt::format("{:.1f} s", seconds);
  return fmt::format("{:.0f} min {:.0f} s", std::floor(seconds / 60), std::fmod(seconds, 60));
}

std::string signed_duration_text(double seconds) { return (seconds < 0 ? "-" : "+") + duration_text(std::fabs(seconds)); }

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (std::fabs(bytes) >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string percent_text(double fraction, int decimals) {
  if (!std::isfinite(fraction)) return "unknown";
  const double scale = std::pow(10.0, decimals);
  double percent = std::round(fraction * 100 * scale) / scale;
  if (percent == 0) percent = 0;  // no "-0.00"
  return fmt::format("{:+.{}f} %", percent, decimals);
}

std::string share_text(double fraction, int decimals) {
  return std::isfinite(fraction) ? fmt::format("{:.{}f} %", fraction * 100, decimals) : "unknown";
}

std::string count_text(int64_t count) {
  std::string digits = fmt::format("{}", count < 0 ? -count : count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return fmt::format("{}{}", count < 0 ? "-" : "", digits);
}

std::string short_hash(const std::string& hash) { return hash.substr(0, 12); }

}  // namespace kl
