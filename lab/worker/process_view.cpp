#include <lab/worker/process_view.hpp>

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace kl {
namespace {

namespace fs = std::filesystem;

std::string affinity_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(thread, sizeof set, &set) != 0) return {};
  std::string text;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &set)) continue;
    int last = i;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", i);
    if (last > i) text += fmt::format("-{}", last);
    i = last;
  }
  return text;
}

// Numeric entries of a folder of /proc.
template <class F>
void each_number(const std::string& folder, F&& f) {
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    f(std::atoi(it->path().filename().c_str()), it->path());
}

void read_mappings(pid_t pid, uint64_t skip_begin, uint64_t skip_end, ProcessView& view) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const uint64_t begin = std::strtoull(line.c_str(), nullptr, 16);
    if (begin >= skip_begin && begin < skip_end) continue;
    std::string range, rights, offset, device, inode;
    std::istringstream(line) >> range >> rights >> offset >> device >> inode;
    MappedFile& file = view.mapped_files[line.substr(slash)];
    file.executable |= rights[2] == 'x';
    file.files.insert(device + " " + inode);
  }
}

}  // namespace

ProcessView view_process(pid_t pid, uint64_t skip_begin, uint64_t skip_end) {
  ProcessView view;
  const std::string folder = fmt::format("/proc/{}", pid);
  each_number(folder + "/task", [&](int thread, const fs::path& path) {
    view.threads[thread] = affinity_of(thread);
    std::getline(std::ifstream(path / "comm"), view.thread_names[thread]);
    std::ifstream children(path / "children");
    for (pid_t child = 0; children >> child;) view.children.insert(child);
  });
  each_number(folder + "/fd", [&](int fd, const fs::path& path) {
    std::error_code code;
    view.open_files[fd] = fs::read_symlink(path, code).string();
  });
  read_mappings(pid, skip_begin, skip_end, view);
  return view;
}

std::vector<std::string> newly_mapped(const ProcessView& before, const ProcessView& now) {
  constexpr std::string_view kUnlinked = " (deleted)";
  const auto was_mapped = [&](std::string_view path, const MappedFile& mapped) {
    if (before.mapped_files.contains(std::string(path))) return true;
    if (!path.ends_with(kUnlinked)) return false;
    path.remove_suffix(kUnlinked.size());
    const auto linked = before.mapped_files.find(std::string(path));
    // The name alone proves nothing: another file may have had it.
    return linked != before.mapped_files.end() &&
           std::ranges::includes(linked->second.files, mapped.files);
  };
  std::vector<std::string> paths;
  for (const auto& [path, mapped] : now.mapped_files)
    if (!was_mapped(path, mapped)) paths.push_back(path);
  return paths;
}

int count_threads(pid_t pid) {
  struct stat info {};
  if (::stat(fmt::format("/proc/{}/task", pid).c_str(), &info) != 0) return 0;
  return std::max(0, static_cast<int>(info.st_nlink) - 2);
}

int64_t private_resident_bytes(pid_t pid) {
  std::ifstream statm(fmt::format("/proc/{}/statm", pid));
  int64_t size = 0, resident = 0, shared = 0;
  statm >> size >> resident >> shared;
  return (resident - shared) * ::sysconf(_SC_PAGESIZE);
}

int64_t processor_time_ns(pid_t pid) {
  clockid_t clock{};
  timespec now{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &now) != 0) return 0;
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace kl
