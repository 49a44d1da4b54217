// What verbs answer that no library records: lists, and library results under a record's header.
#pragma once

#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>
#include <lab/flow/assess.hpp>
#include <lab/flow/history.hpp>
#include <lab/flow/workspace.hpp>
#include <lab/ledger/upkeep.hpp>
#include <lab/verify/verify.hpp>

#include <map>
#include <string>
#include <vector>

namespace kl::app {

// A described result with the header every record carries; its own fields win over the header's.
template <class Body>
struct Headed : RecordHeader {
  static constexpr std::string_view kSchema = Body::kSchema;
  Body body;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    Body::describe(self.body, v);
  }
};

template <class Body>
Headed<Body> headed(const Body& body, Status status = Status::ok) {
  auto record = new_record<Headed<Body>>();
  record.body = body;
  record.status = status;
  return record;
}

// An answer that is an error: the header says it all.
struct ErrorRecord : RecordHeader {
  static constexpr std::string_view kSchema = "error";
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
  }
};

struct EngineLine {
  std::string engine;
  Status status = Status::ok;
  std::string reason, remedy;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("engine", self.engine, "name for --engine");
    v("status", self.status, "ok, or what is missing");
    v("reason", self.reason, "why it cannot run here");
    v("remedy", self.remedy, "what to do about it");
  }
};

struct EngineList : RecordHeader {
  static constexpr std::string_view kSchema = "engine-list";
  std::vector<EngineLine> engines;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("engines", self.engines, "every engine of this build");
  }
};

struct TargetLine {
  std::string key;
  std::vector<std::string> aliases;
  std::string status, metric, seam, path;
  std::map<std::string, std::string> opened_by;
  std::vector<std::string> families;
  std::string title, folder;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("key", self.key, "name for --target");
    v("aliases", self.aliases, "other names for it");
    v("status", self.status, "starter-ready, trace-ready or no-starter");
    v("metric", self.metric, "number that decides");
    v("seam", self.seam, "seam of the trainer, or empty");
    v("path", self.path, "what the preset does with the seam: runs, shadowed, absent; empty: no seam, or not asked");
    v("opened_by", self.opened_by, "preset fields that put a shadowed seam on the path");
    v("families", self.families, "operation families");
    v("title", self.title, "what it computes");
    v("folder", self.folder, "where it was found");
  }
};

struct BrokenTarget {
  std::string reason, remedy;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("reason", self.reason, "file, line, column and what is wrong");
    v("remedy", self.remedy, "what to do about it");
  }
};

struct TargetList : RecordHeader {
  static constexpr std::string_view kSchema = "target-list";
  std::vector<TargetLine> targets;
  std::vector<BrokenTarget> broken;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("targets", self.targets, "every target that could be read");
    v("broken", self.broken, "folders whose spec could not");
  }
};

struct InitRecord : RecordHeader {
  static constexpr std::string_view kSchema = "init";
  std::string kernel;
  WorkspaceRecord made;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("kernel", self.kernel, "the one file to change");
    v("made", self.made, "workspace.json as it was written");
  }
};

struct VerifyChampions : RecordHeader {
  static constexpr std::string_view kSchema = "verify-champions";
  std::vector<VerifyRecord> records;
  std::vector<std::string> on_file;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("records", self.records, "one verify for each champion");
    v("on_file", self.on_file, "targets whose verify was taken from the ledger (--resume)");
  }
};

struct HistoryRecord : RecordHeader {
  static constexpr std::string_view kSchema = "history";
  std::string present;
  std::vector<HistoryEntry> sources;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("present", self.present, "SHA-256 of the source in the workspace, or empty");
    v("sources", self.sources, "every source that was verified, oldest first");
  }
};

struct DiffRecord : RecordHeader {
  static constexpr std::string_view kSchema = "diff";
  std::string before, after, patch;
  int64_t lines_added = 0, lines_removed = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("before", self.before, "a hash, champion or workspace");
    v("after", self.after, "a hash, champion or workspace");
    v("patch", self.patch, "unified diff; empty: no difference");
    v("lines_added", self.lines_added, "lines of `after` alone");
    v("lines_removed", self.lines_removed, "lines of `before` alone");
  }
};

struct GeneratedText : RecordHeader {
  static constexpr std::string_view kSchema = "generated-text";
  std::string form, text;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("form", self.form, "bash, zsh, fish or man");
    v("text", self.text, "the file's content");
  }
};

struct DoctorRecord : RecordHeader {
  static constexpr std::string_view kSchema = "doctor";
  std::map<std::string, std::vector<DoctorLine>> sections;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("sections", self.sections, "lines by engine, then tools, confinement, timing (which decides nothing) and files");
  }
};

struct LedgerShow : RecordHeader {
  static constexpr std::string_view kSchema = "ledger-show";
  std::vector<LedgerEvent> events;
  LedgerHealth health;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("events", self.events, "those that match, oldest first");
    v("health", self.health, "what reading set aside");
  }
};

struct TourCommand {
  std::vector<std::string> command;
  int exit_code = 0;
  double seconds = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("command", self.command, "verb and flags");
    v("exit_code", self.exit_code, "of the verb");
    v("seconds", self.seconds, "how long it took");
  }
};

struct TourEnding {
  std::string kernel;
  std::string expected;  // answer or state that the story is about
  std::string reached;
  std::string sentence;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("kernel", self.kernel, "what was tried");
    v("expected", self.expected, "answer or state the story is about");
    v("reached", self.reached, "that of promotion-check at its end");
    v("sentence", self.sentence, "why");
  }
};

struct TourRecord : RecordHeader {
  static constexpr std::string_view kSchema = "tour";
  std::vector<TourCommand> commands;
  std::vector<TourEnding> endings;
  std::string folder;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("commands", self.commands, "what was run, in order");
    v("endings", self.endings, "one for each kernel");
    v("folder", self.folder, "kept folder, or empty");
  }
};

}  // namespace kl::app
