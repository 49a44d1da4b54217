#include <lab/flow/history.hpp>

#include <lab/core/hash.hpp>

#include <algorithm>
#include <map>

namespace kl {
namespace {

EvidenceLine verdict_line(const LedgerEvent& e) {
  EvidenceLine line;
  line.id = e.id;
  line.created_at = e.created_at;
  line.event_type = e.event_type;
  line.status = e.status;
  line.metric_name = e.metric_name;
  line.metric_value = e.metric_value;
  line.preset = e.preset;
  line.workspace = e.workspace;
  line.kernel = e.identity.kernel;
  return line;
}

}  // namespace

std::vector<HistoryEntry> history(std::span<const LedgerEvent> events,
                                  const HistoryRequest& request, const ObjectStore& objects) {
  std::vector<HistoryEntry> entries;
  std::map<std::string, size_t> index;
  for (const auto& event : events) {
    if (event.target != request.target || event.engine != request.engine ||
        event.identity.kernel.empty())
      continue;
    if (!request.workspace.empty() && event.workspace != request.workspace) continue;
    const auto [it, added] = index.emplace(event.identity.kernel, entries.size());
    if (added) entries.push_back({event.identity.kernel, event.created_at});
    HistoryEntry& entry = entries[it->second];
    entry.last_seen = event.created_at;
    entry.verdicts.push_back(verdict_line(event));
  }
  std::erase_if(entries, [](const HistoryEntry& entry) {
    return std::none_of(entry.verdicts.begin(), entry.verdicts.end(),
                        [](const EvidenceLine& line) { return line.event_type == "verify"; });
  });
  for (auto& entry : entries) {
    entry.stored = objects.find(entry.kernel).ok();
    entry.is_champion = entry.kernel == request.champion_hash;
  }
  return entries;
}

Result<std::string> named_source(std::string_view name, const SourceNames& names,
                                 const ObjectStore& objects) {
  if (name == "champion") return read_file(names.champion);
  if (name == "workspace") return read_file(names.workspace_kernel);
  return objects.get(name);
}

Result<SourceDiff> diff_named(std::string_view before, std::string_view after,
                              const SourceNames& names, const ObjectStore& objects) {
  KL_TRY(const std::string a, named_source(before, names, objects));
  KL_TRY(const std::string b, named_source(after, names, objects));
  return diff_sources(a, b, std::string(before), std::string(after));
}

Result<RestoredKernel> restore_kernel(const Workspace& workspace, std::string_view hash_or_prefix,
                                      const ObjectStore& objects) {
  KL_TRY(const std::string source, objects.get(hash_or_prefix));
  RestoredKernel restored{sha256_hex(source), {}};
  std::error_code code;
  if (fs::exists(workspace.kernel(), code)) {
    KL_TRY(const std::string current, read_file(workspace.kernel()));
    KL_TRY(restored.replaced, objects.put(current, workspace.kernel().extension().string()));
  }
  KL_CHECK(write_file_atomic(workspace.kernel(), source));
  return restored;
}

}  // namespace kl
