#include <trainer/host_memory.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace kl::trainer {
namespace {

std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;  // "max": no limit
}

// The number after `name` in a file of names and numbers.
std::optional<int64_t> number_of(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word)
    if (int64_t value = 0; word == name && file >> value) return value;
  return std::nullopt;
}

std::optional<int64_t> system_bytes() {
  const auto kilobytes = number_of("/proc/meminfo", "MemAvailable:");
  return kilobytes ? std::optional(*kilobytes * 1024) : std::nullopt;
}

// As a container sees its own control group, version 2 or 1. Files that were read and can be dropped count as free.
std::optional<int64_t> group_bytes() {
  const struct {
    std::string folder, limit, used, droppable;
  } versions[] = {
      {"/sys/fs/cgroup/", "memory.max", "memory.current", "inactive_file"},
      {"/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}};
  for (const auto& v : versions) {
    const auto limit = number_in(v.folder + v.limit), used = number_in(v.folder + v.used);
    if (limit && used) return *limit - *used + number_of(v.folder + "memory.stat", v.droppable).value_or(0);
  }
  return std::nullopt;
}

std::string gigabytes(int64_t bytes) { return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9); }

}  // namespace

std::optional<int64_t> available_memory_bytes() {
  const auto system = system_bytes(), group = group_bytes();
  return system && group ? std::min(*system, *group) : system ? system : group;
}

Outcome check_memory(const Config& c, const MemoryPlan& plan, std::optional<int64_t> available) {
  const int64_t needed = plan.parameter_bytes + plan.activation_bytes;
  if (!available || needed <= *available) return {};
  const int64_t rows = plan.activation_bytes > 0
                           ? std::max<int64_t>(0, *available - plan.parameter_bytes) / (plan.activation_bytes / c.rows)
                           : 0;
  std::string remedy = "choose a smaller preset: `kernel-lab-train presets`";
  if (rows > 0)
    remedy = fmt::format("--set rows={} --set accumulation={} fits, with as many tokens a step", rows,
                         (c.rows * c.accumulation + rows - 1) / rows);
  return make_error(Status::missing_runtime,
                    fmt::format("preset {} needs {} ({} for parameters and their optimiser, {} for a micro-batch of {} "
                                "rows); {} are free",
                                c.name, gigabytes(needed), gigabytes(plan.parameter_bytes),
                                gigabytes(plan.activation_bytes), c.rows, gigabytes(*available)),
                    remedy);
}

}  // namespace kl::trainer
