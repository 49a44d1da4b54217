// The ledger: JSON Lines, append only. Appending is O(1); a query over a million lines looks at the
// end of each line first and parses only what can match.
#pragma once

#include <lab/ledger/event.hpp>

#include <filesystem>
#include <vector>

namespace kl {

// An empty field matches everything. `kernel` may be a prefix of the hash.
struct LedgerFilter {
  std::string target;
  std::string engine;
  std::string preset;
  std::string workspace;
  std::string status;
  std::string kernel;
  std::string fingerprint_class;
  std::vector<std::string> event_types;
  size_t newest = 0;  // at most so many, the last ones appended; 0: all
};
bool matches(const LedgerFilter& filter, const LedgerEvent& event);

struct LedgerProblem {
  int64_t line = 0;
  std::string kind;  // torn, corrupt, altered, unknown-version
  std::string what;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("line", self.line, "line number, from 1");
    v("kind", self.kind, "torn, corrupt, altered or unknown-version");
    v("what", self.what, "what is wrong");
  }
};

// What a reading set aside. Lines that a filter excludes are counted when torn or of an unknown
// version; whether they are corrupt or altered only `check_ledger` tells.
struct LedgerHealth {
  static constexpr std::string_view kSchema = "ledger-health";
  int64_t lines = 0;
  int64_t torn = 0;
  int64_t corrupt = 0;
  int64_t altered = 0;
  int64_t unknown_versions = 0;
  int64_t unidentified = 0;             // version 1, among the lines read
  std::vector<LedgerProblem> problems;  // the first kProblemsKept
  static constexpr size_t kProblemsKept = 100;

  bool clean() const { return torn + corrupt + altered + unknown_versions == 0; }
  void add(LineKind kind, int64_t line, std::string what);

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("lines", self.lines, "lines that are not empty");
    v("torn", self.torn, "lines cut short, set aside");
    v("corrupt", self.corrupt, "lines that are no event, set aside");
    v("altered", self.altered, "lines that do not match their id, set aside");
    v("unknown_versions", self.unknown_versions, "lines of a version this lab does not know");
    v("unidentified", self.unidentified, "version 1 lines, shown as unidentified evidence");
    v("problems", self.problems, "the first hundred, by line");
  }
};

struct LedgerReading {
  std::vector<LedgerEvent> events;  // in the order they were appended
  LedgerHealth health;
};

class Ledger {
 public:
  explicit Ledger(std::filesystem::path path) : path_(std::move(path)) {}
  const std::filesystem::path& path() const { return path_; }

  // Fills ledger_schema_version, created_at (when empty) and id, and returns what was written. When
  // it returns a value the line is on the disk; when it returns an error the ledger is unchanged.
  Result<LedgerEvent> append(LedgerEvent event) const;
  // A ledger that does not exist yet is empty.
  Result<LedgerReading> read() const { return query({}); }
  Result<LedgerReading> query(const LedgerFilter& filter) const;

 private:
  std::filesystem::path path_;
};

}  // namespace kl
