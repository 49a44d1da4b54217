#include <lab/core/cache_size.hpp>

#include <lab/core/files.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace kl {

int64_t last_level_cache_bytes() {
  int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    const auto size = read_file("/sys/devices/system/cpu/cpu0/cache/index" +
                                std::to_string(index) + "/size");
    if (!size) break;
    char* unit = nullptr;
    const int64_t number = std::strtoll(size->c_str(), &unit, 10);
    largest = std::max(largest, number * (*unit == 'K' ? 1024 : *unit == 'M' ? 1 << 20 : 1));
  }
  return largest > 0 ? largest : int64_t{32} << 20;
}

}  // namespace kl
