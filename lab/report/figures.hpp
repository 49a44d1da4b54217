// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace kl {

std::string duration_text(double seconds);        // "1.23 ms", "4.5 s", "2 min 5 s"
std::string signed_duration_text(double seconds);  // "+1.23 ms", "-1.23 ms"
std::string bytes_text(double bytes);             // "12.3 MB"
inline std::string or_none(const std::string& name) { return name.empty() ? "none" : name; }
std::string percent_text(double fraction, int decimals = 2);         // "+1.25 %" never "-0.00 %"
std::string share_text(double fraction, int decimals = 1);           // "12.5 %"
std::string count_text(int64_t count);            // "1,234,567"
std::string short_hash(const std::string& hash);  // first 12 digits

}  // namespace kl
