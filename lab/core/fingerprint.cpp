#include <lab/core/fingerprint.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>

#include <sched.h>
#include <sys/utsname.h>

namespace kl {
namespace {

std::string first_line(const char* path) {
  const auto content = read_file(path);
  if (!content) return "unknown";
  return content->substr(0, content->find('\n'));
}

}  // namespace

std::string FingerprintClass::hash() const { return sha256_hex(dump_line(to_json(*this))).substr(0, 16); }

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::string cpu_model() {
  const auto info = read_file("/proc/cpuinfo");
  if (!info) return "unknown";
  const size_t key = info->find("model name");
  if (key == std::string::npos) return "unknown";
  const size_t colon = info->find(':', key);
  const size_t end = info->find('\n', key);
  return colon < end ? info->substr(colon + 2, end - colon - 2) : "unknown";
}

FingerprintSession current_session() {
  utsname name{};
  ::uname(&name);
  return {name.nodename, first_line("/proc/sys/kernel/random/boot_id"), name.release,
          first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")};
}

}  // namespace kl
