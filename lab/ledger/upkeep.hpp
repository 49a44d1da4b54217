// Keeping ledgers: full verification, repair, the union of several, and what one holds.
#pragma once

#include <lab/ledger/ledger.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <vector>

namespace kl {

// Parses every line and checks every id.
Result<LedgerHealth> check_ledger(const std::filesystem::path& path);

struct LedgerRepair {
  static constexpr std::string_view kSchema = "ledger-repair";
  LedgerHealth before;
  int64_t kept = 0;  // lines of the repaired ledger, those of unknown versions among them
  int64_t quarantined = 0;
  std::string quarantine;  // file that now holds them, or empty

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("before", self.before, "what the ledger was like");
    v("kept", self.kept, "lines of the repaired ledger");
    v("quarantined", self.quarantined, "lines moved out of it");
    v("quarantine", self.quarantine, "the file they were moved to, or empty");
  }
};

// Moves torn, corrupt and altered lines, unchanged, to `<ledger>.quarantine` (appended) and
// replaces the ledger atomically by the rest. A clean ledger is left alone.
Result<LedgerRepair> repair_ledger(const std::filesystem::path& path);

struct LedgerMerge {
  static constexpr std::string_view kSchema = "ledger-merge";
  std::vector<std::string> inputs;
  std::string output;
  int64_t events = 0;      // in the output
  int64_t duplicates = 0;  // lines left out because another has the same id
  LedgerHealth
      set_aside;  // lines of the inputs that were not taken; their line numbers are per input

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("inputs", self.inputs, "ledgers that were read");
    v("output", self.output, "ledger that was written");
    v("events", self.events, "lines of the output");
    v("duplicates", self.duplicates, "lines left out: another has the same id");
    v("set_aside", self.set_aside, "lines of the inputs that were not taken");
  }
};

// The union of ledgers by id (version 1 lines and those of unknown versions: by their text),
// ordered by created_at then id, written atomically. The output may be one of the inputs, or exist:
// then it takes part. Merging again changes nothing.
Result<LedgerMerge> merge_ledgers(const std::vector<std::filesystem::path>& inputs,
                                  const std::filesystem::path& output);

struct LedgerStats {
  static constexpr std::string_view kSchema = "ledger-stats";
  LedgerHealth health;
  int64_t size_bytes = 0;
  std::string first_created_at, last_created_at;
  std::map<std::string, int64_t> by_event_type, by_target, by_engine, by_status;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("health", self.health, "what reading it set aside");
    v("size_bytes", self.size_bytes, "size of the file");
    v("first_created_at", self.first_created_at, "oldest event");
    v("last_created_at", self.last_created_at, "newest event");
    v("by_event_type", self.by_event_type, "events of each type");
    v("by_target", self.by_target, "events of each target");
    v("by_engine", self.by_engine, "events of each engine");
    v("by_status", self.by_status, "events of each status");
  }
};
Result<LedgerStats> ledger_stats(const std::filesystem::path& path);

}  // namespace kl
