// One line of the ledger: what was measured, on what, with which outcome.
#pragma once

#include <lab/core/record.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

inline constexpr int kLedgerSchemaVersion = 2;

// Every event type a ledger may hold, in the order of docs/ledger.md.
std::span<const std::string> ledger_event_types();

struct LedgerEvent {
  static constexpr std::string_view kSchema = "ledger-event";
  int ledger_schema_version = kLedgerSchemaVersion;
  std::string id;          // SHA-256 of the other fields; empty in version 1
  std::string created_at;  // UTC
  std::string git_commit;
  bool git_dirty = false;
  std::string engine;
  std::string backend_family;
  std::string target;
  std::string workspace;
  std::string event_type;
  std::string status;  // text, so that a status of another lab version stays readable
  std::string metric_name;
  std::optional<double> metric_value;
  std::string preset;
  Json context = Json::object();
  Identity identity;
  Json details = Json::object();

  // Version 1 lines have no identity: they are shown and can promote nothing.
  bool identified() const { return ledger_schema_version >= 2 && !id.empty(); }

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("ledger_schema_version", self.ledger_schema_version, "2; version 1 lines have no identity");
    v("id", self.id, "SHA-256 of the line without this field");
    v("created_at", self.created_at, "UTC");
    v("git_commit", self.git_commit, "commit of the working folder, or empty");
    v("git_dirty", self.git_dirty, "the working folder had uncommitted changes");
    v("engine", self.engine, "kernel substrate");
    v("backend_family", self.backend_family, "native, nvidia, amd, apple");
    v("target", self.target, "key of the target, or empty");
    v("workspace", self.workspace, "workspace folder, or empty");
    v("event_type", self.event_type, "what was done");
    v("status", self.status, "outcome");
    v("metric_name", self.metric_name, "name of the number that decides, or empty");
    v("metric_value", self.metric_value, "the number that decides, or null");
    v("preset", self.preset, "trainer operating point, or empty");
    v("context", self.context, "where the work came from: profile, rank, rationale");
    v("identity", self.identity, "hashes of what was measured");
    v("details", self.details, "by event type: docs/ledger.md");
  }
};

// The SHA-256 of the event's sorted JSON without its id.
std::string content_id(const LedgerEvent& event);
// The event as one line, without the newline.
std::string ledger_line(const LedgerEvent& event);

// What one line of a ledger turned out to be.
enum class LineKind : uint8_t { event, torn, corrupt, altered, unknown_version };
std::string_view to_string(LineKind kind);

struct ParsedLine {
  LineKind kind = LineKind::corrupt;
  LedgerEvent event;  // of kind `event`
  std::string what;   // of every other kind: what is wrong
};
// Parses one line wholly and checks its id.
ParsedLine parse_ledger_line(std::string_view line);

// The plain fields of a line, as views into it.
struct LineFields {
  std::string_view workspace, target, status, preset, metric_value, metric_name, version;
  std::string_view trainer, seams, kernel, harness, flags, fingerprint_class, case_plan, baseline;
  std::string_view id, git_dirty, git_commit, event_type, engine;
  // What stands before those read so far: backend_family, context, created_at and details.
  std::string_view unread;
};
// Both read a line that has the exact layout of `ledger_line`, from its end, and return false or
// nullopt for any other, which must be parsed to be understood. skim_line_end stops at the version,
// which is enough to pass over most lines; skim_identity reads on from there.
std::optional<LineFields> skim_line_end(std::string_view line);
bool skim_identity(LineFields& fields);

}  // namespace kl
