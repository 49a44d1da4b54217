// Every source that was verified, with its verdicts; compare two, bring one back.
#pragma once

#include <lab/core/files.hpp>
#include <lab/flow/assess.hpp>
#include <lab/flow/source_diff.hpp>
#include <lab/flow/workspace.hpp>

#include <span>
#include <string>
#include <vector>

namespace kl {

struct HistoryEntry {
  std::string kernel;                 // SHA-256 of the source
  std::string first_seen, last_seen;  // UTC, of its events
  bool stored = false;                // the source is in the object store
  bool is_champion = false;
  std::vector<EvidenceLine> verdicts;  // in the order they were recorded

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("kernel", self.kernel, "SHA-256 of the source");
    v("first_seen", self.first_seen, "UTC of its first event");
    v("last_seen", self.last_seen, "UTC of its last event");
    v("stored", self.stored, "its source can be shown and restored");
    v("is_champion", self.is_champion, "it is the champion now");
    v("verdicts", self.verdicts, "its events, oldest first");
  }
};

struct HistoryRequest {
  std::string target;
  std::string engine;
  std::string workspace;  // empty: of every workspace
  std::string champion_hash;
};

// Sources with at least one verify, oldest first by their first event.
std::vector<HistoryEntry> history(std::span<const LedgerEvent> events,
                                  const HistoryRequest& request, const ObjectStore& objects);

// `hash_or_prefix` of a stored source; "champion" and "workspace" are read from the files.
struct SourceNames {
  std::filesystem::path champion;
  std::filesystem::path workspace_kernel;
};
Result<std::string> named_source(std::string_view name, const SourceNames& names,
                                 const ObjectStore& objects);
Result<SourceDiff> diff_named(std::string_view before, std::string_view after,
                              const SourceNames& names, const ObjectStore& objects);

struct RestoredKernel {
  static constexpr std::string_view kSchema = "restore";
  std::string kernel;    // SHA-256 of what is in the workspace now
  std::string replaced;  // SHA-256 of what was there, now in the object store; empty: no file was

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("kernel", self.kernel, "SHA-256 of what is in the workspace now");
    v("replaced", self.replaced, "SHA-256 of what was there before, kept; empty: nothing");
  }
};
// Puts a stored source into the workspace; what was there is kept in the object store first.
Result<RestoredKernel> restore_kernel(const Workspace& workspace, std::string_view hash_or_prefix,
                                      const ObjectStore& objects);

}  // namespace kl
