#include <lab/ledger/ledger.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/ledger/upkeep.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

namespace kl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LedgerEvent bench_event(const std::string& target, double ratio) {
  LedgerEvent event;
  event.engine = "cpu";
  event.backend_family = "native";
  event.target = target;
  event.event_type = "bench";
  event.status = "improved";
  event.metric_name = "time_ratio";
  event.metric_value = ratio;
  event.preset = "smoke";
  event.workspace = "/tmp/w";
  event.identity.kernel = std::string(64, 'a');
  event.identity.fingerprint_class = "0123456789abcdef";
  return event;
}

class LedgerTest : public testing::Test {
 protected:
  TemporaryFolder folder_ = TemporaryFolder::create("kl-ledger").value();
  fs::path path_ = folder_.path() / "results" / "ledger.jsonl";
  Ledger ledger_{path_};

  std::string text() const { return read_file(path_).value(); }
  void write(const std::string& content) const {
    ASSERT_TRUE(write_file_atomic(path_, content).ok());
  }
  LedgerReading read() const { return ledger_.read().value(); }
};

TEST_F(LedgerTest, LedgerThatDoesNotExistIsEmpty) {
  const auto reading = ledger_.read();
  ASSERT_TRUE(reading.ok());
  EXPECT_TRUE(reading->events.empty());
  EXPECT_EQ(reading->health.lines, 0);
}

TEST_F(LedgerTest, AppendedEventReadsBackAsItWasWritten) {
  auto event = bench_event("rmsnorm", 0.1 + 0.2);
  event.details = {{"record", {{"ratio", 1e-300}, {"text", "a \"quoted\" \\ line\n"}}}};
  const auto written = ledger_.append(event);
  ASSERT_TRUE(written.ok()) << written.error().what;
  const auto reading = read();
  ASSERT_EQ(reading.events.size(), 1u);
  EXPECT_EQ(to_json(reading.events[0]), to_json(*written));
  EXPECT_EQ(reading.events[0].id.size(), 64u);
  EXPECT_TRUE(reading.health.clean());
}

TEST_F(LedgerTest, TextThatIsNotUtf8IsReplacedAndStillMatchesItsId) {
  auto event = bench_event("rmsnorm", 1);
  event.details = {{"message", "broken \xff byte"}};
  ASSERT_TRUE(ledger_.append(event).ok());
  EXPECT_EQ(read().events.size(), 1u);
}

TEST_F(LedgerTest, UnknownEventTypeAndUnknownStatusAreRefused) {
  auto event = bench_event("rmsnorm", 1);
  event.event_type = "benhc";
  const auto refused = ledger_.append(event);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().remedy, HasSubstr("bench"));
  event = bench_event("rmsnorm", 1);
  event.status = "great";
  EXPECT_FALSE(ledger_.append(event).ok());
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(LedgerTest, TornTailIsIsolatedAndTheNextAppendStartsANewLine) {
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 1)).ok());
  const std::string whole = text();
  write(whole + whole.substr(0, whole.size() / 2));
  ASSERT_TRUE(ledger_.append(bench_event("loss_prelude", 1)).ok());
  const auto reading = read();
  ASSERT_EQ(reading.events.size(), 2u);
  EXPECT_EQ(reading.events[1].target, "loss_prelude");
  EXPECT_EQ(reading.health.torn, 1);
  ASSERT_EQ(reading.health.problems.size(), 1u);
  EXPECT_EQ(reading.health.problems[0].line, 2);
}

TEST_F(LedgerTest, WholeLastLineWithoutItsNewlineIsUsed) {
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 1)).ok());
  std::string whole = text();
  whole.pop_back();
  write(whole);
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 2)).ok());
  EXPECT_EQ(read().events.size(), 2u);
}

TEST_F(LedgerTest, CorruptAndAlteredLinesInTheMiddleAreReportedWithTheirLines) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", i)).ok());
  std::string all = text();
  const size_t second = all.find('\n') + 1, third = all.find('\n', second) + 1;
  std::string altered = all.substr(second, third - second);
  altered.replace(altered.find("\"metric_value\":1.0"), 18, "\"metric_value\":0.5");
  write(all.substr(0, second) + "{not json}\n" + altered + "\n" + std::string(8, '\0') + "\n" +
        all.substr(third));
  const auto reading = read();
  EXPECT_EQ(reading.events.size(), 2u);
  EXPECT_EQ(reading.health.corrupt, 1);
  EXPECT_EQ(reading.health.altered, 1);
  EXPECT_EQ(reading.health.torn, 1);
  std::vector<int64_t> lines;
  for (const auto& problem : reading.health.problems) lines.push_back(problem.line);
  EXPECT_THAT(lines, ElementsAre(2, 3, 5));
  const auto check = check_ledger(path_);
  ASSERT_TRUE(check.ok());
  EXPECT_EQ(to_json(*check), to_json(reading.health));
}

TEST_F(LedgerTest, VersionOneLinesAreReadAsUnidentifiedEvidence) {
  write(R"({"ledger_schema_version": 1, "created_at": "2025-01-01T00:00:00Z", "git_commit": null,)"
        R"( "engine": "cuda", "target": "rmsnorm", "event_type": "bench", "status": "ok",)"
        R"( "metric_name": "speedup", "metric_value": 1.2, "preset": "upstream", "id": "made up",)"
        R"( "identity": {"kernel": "cafe"}, "details": {}})"
        "\n");
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 1)).ok());
  const auto reading = ledger_.query({.target = "rmsnorm", .engine = "cuda"}).value();
  ASSERT_EQ(reading.events.size(), 1u);
  EXPECT_FALSE(reading.events[0].identified());
  EXPECT_EQ(reading.events[0].identity, Identity{});
  EXPECT_EQ(reading.events[0].metric_value, 1.2);
  EXPECT_EQ(reading.health.unidentified, 1);
  EXPECT_TRUE(reading.health.clean());
}

TEST_F(LedgerTest, UnknownVersionsAreCountedWhateverTheFilter) {
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 1)).ok());
  std::string future = text();
  future.replace(future.find("\"ledger_schema_version\":2"), 25, "\"ledger_schema_version\":3");
  write(text() + future + R"({"ledger_schema_version": 7, "target": "x"})" + "\n");
  EXPECT_EQ(read().health.unknown_versions, 2);
  const auto other = ledger_.query({.target = "loss_prelude"}).value();
  EXPECT_EQ(other.health.unknown_versions, 2);
  EXPECT_TRUE(other.events.empty());
}

TEST_F(LedgerTest, EveryFilterSelectsWhatAFullParseWouldSelect) {
  std::vector<LedgerEvent> all;
  for (int i = 0; i < 64; ++i) {
    auto event = bench_event(i & 1 ? "rmsnorm" : "loss_prelude", i);
    event.engine = i & 2 ? "cpu" : "cuda";
    event.preset = i & 4 ? "smoke" : "cpu-balanced";
    event.event_type = i & 8 ? "bench" : "verify";
    event.workspace = i & 16 ? "/tmp/plain" : "/tmp/with \"quotes\" and \\";
    event.identity.kernel = std::string(64, i & 32 ? 'a' : 'b');
    event.status = i % 3 ? "ok" : "mismatch";
    event.details = {{"target", "rmsnorm"}, {"note", "\"target\":\"rmsnorm\""}};
    all.push_back(ledger_.append(event).value());
  }
  const std::vector<LedgerFilter> filters = {{},
                                             {.target = "rmsnorm"},
                                             {.engine = "cuda"},
                                             {.preset = "smoke"},
                                             {.workspace = "/tmp/plain"},
                                             {.workspace = "/tmp/with \"quotes\" and \\"},
                                             {.status = "mismatch"},
                                             {.kernel = "aaaa"},
                                             {.fingerprint_class = "0123456789abcdef"},
                                             {.fingerprint_class = "other"},
                                             {.event_types = {"bench", "integration-ab"}},
                                             {.target = "rmsnorm",
                                              .engine = "cpu",
                                              .preset = "smoke",
                                              .kernel = "b",
                                              .event_types = {"verify"}},
                                             {.target = "rmsnor"}};
  for (const auto& filter : filters) {
    std::vector<std::string> expected, got;
    for (const auto& event : all)
      if (matches(filter, event)) expected.push_back(event.id);
    const auto reading = ledger_.query(filter).value();
    for (const auto& event : reading.events) got.push_back(event.id);
    EXPECT_EQ(got, expected);
  }
}

TEST_F(LedgerTest, NewestLimitsToTheLastOnesInOrder) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", i)).ok());
  const auto events = ledger_.query({.target = "rmsnorm", .newest = 3})->events;
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].metric_value, 7);
  EXPECT_EQ(events[2].metric_value, 9);
}

TEST_F(LedgerTest, LinesOfTheLabsOwnLayoutAreSkimmedAndOthersAreNot) {
  auto event = bench_event("rmsnorm", 0.5);
  event.ledger_schema_version = 2;
  event.id = content_id(event);
  const std::string line = ledger_line(event);
  auto fields = skim_line_end(line);
  ASSERT_TRUE(fields.has_value());
  ASSERT_TRUE(skim_identity(*fields));
  EXPECT_EQ(fields->target, "rmsnorm");
  EXPECT_EQ(fields->engine, "cpu");
  EXPECT_EQ(fields->event_type, "bench");
  EXPECT_EQ(fields->kernel, event.identity.kernel);
  EXPECT_EQ(fields->version, "2");
  event.workspace = "a\"b";
  EXPECT_FALSE(skim_line_end(ledger_line(event)).has_value());
  EXPECT_FALSE(skim_line_end(R"({"target": "rmsnorm"})").has_value());
}

// A space keeps a line's content and takes its layout: such a line is parsed wholly.
TEST_F(LedgerTest, LineOfTheLabsOwnLayoutParsesToWhatAWholeParseGives) {
  std::vector<LedgerEvent> events(5, bench_event("rmsnorm", 1e-300));
  events[1].details = {{"record", {{"id", "x"}, {"text", "a \"quoted\" \\ line\n\u00e9"}}}};
  events[1].context = {{"rank", 3}};
  events[1].git_dirty = true;
  events[2].metric_value.reset();
  events[3].workspace = "a\"b";
  events[4].preset = "gr\u00f6\u00dfer";
  for (LedgerEvent& event : events) {
    event.id = content_id(event);
    const std::string line = ledger_line(event);
    const ParsedLine own = parse_ledger_line(line), whole = parse_ledger_line("{ " + line.substr(1));
    ASSERT_EQ(own.kind, LineKind::event) << own.what;
    ASSERT_EQ(whole.kind, LineKind::event) << whole.what;
    EXPECT_EQ(to_json(own.event), to_json(event));
    EXPECT_EQ(to_json(own.event), to_json(whole.event));
  }
}

TEST_F(LedgerTest, ByteThatNoJsonStringMayHoldIsCorruptThoughTheIdIsRight) {
  for (const char* bad : {"impr\x01ved", "impr\xffved"}) {
    std::string line = ledger_line(bench_event("rmsnorm", 1));
    line.replace(line.find("improved"), 8, bad);
    std::string content = line;
    content.erase(content.find("\"id\":\"\","), 8);
    line.replace(line.find("\"id\":\"\""), 7, fmt::format("\"id\":\"{}\"", sha256_hex(content)));
    EXPECT_EQ(parse_ledger_line(line).kind, LineKind::corrupt);
  }
}

TEST_F(LedgerTest, BigFileInPartsHasTheSameLineNumbersAsASmallOne) {
  auto event = bench_event("rmsnorm", 1);
  event.details = {{"padding", std::string(4000, 'x')}};
  ASSERT_TRUE(ledger_.append(event).ok());
  const std::string line = text();
  std::string content;
  const int count = static_cast<int>((24 << 20) / line.size());
  for (int i = 0; i < count; ++i) content += i == count - 7 ? "{torn\n" : line;
  write(content);
  const auto reading = ledger_.query({.target = "none"}).value();
  EXPECT_EQ(reading.health.lines, count);
  ASSERT_EQ(reading.health.problems.size(), 1u);
  EXPECT_EQ(reading.health.problems[0].line, count - 6);
}

TEST_F(LedgerTest, WritersInSeveralProcessesAllComplete) {
  constexpr int kWriters = 4, kLines = 500;
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      for (int i = 0; i < kLines; ++i)
        if (!ledger_.append(bench_event(fmt::format("writer-{}", w), i)).ok()) ::_exit(1);
      ::_exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  const auto reading = read();
  EXPECT_TRUE(reading.health.clean());
  EXPECT_EQ(reading.health.lines, kWriters * kLines);
  std::set<std::string> ids;
  std::map<std::string, double> last;
  for (const auto& event : reading.events) {
    ids.insert(event.id);
    const double expected = last.contains(event.target) ? last[event.target] + 1 : 0;
    EXPECT_EQ(event.metric_value, expected) << event.target;
    last[event.target] = *event.metric_value;
  }
  EXPECT_EQ(ids.size(), static_cast<size_t>(kWriters * kLines));
}

TEST_F(LedgerTest, NoAcknowledgedLineIsLostWhenTheWriterIsKilled) {
  int64_t acknowledged_total = 0;
  for (int round = 0; round < 5; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      for (;;) {
        if (!ledger_.append(bench_event(fmt::format("round-{}", round), 0)).ok()) ::_exit(1);
        if (::write(ends[1], ".", 1) != 1) ::_exit(1);
      }
    }
    ::close(ends[1]);
    int64_t acknowledged = 0;
    char byte;
    while (acknowledged < 20 + 7 * round && ::read(ends[0], &byte, 1) == 1) ++acknowledged;
    ::kill(pid, SIGKILL);
    while (::read(ends[0], &byte, 1) == 1) ++acknowledged;
    ::close(ends[0]);
    ::waitpid(pid, nullptr, 0);
    const auto count = static_cast<int64_t>(
        ledger_.query({.target = fmt::format("round-{}", round)})->events.size());
    EXPECT_GE(count, acknowledged);
    EXPECT_LE(count, acknowledged + 1);  // written, not yet acknowledged
    acknowledged_total += acknowledged;
  }
  ASSERT_TRUE(ledger_.append(bench_event("after", 1)).ok());
  EXPECT_EQ(ledger_.query({.target = "after"})->events.size(), 1u);
  EXPECT_GE(acknowledged_total, 100);
}

TEST_F(LedgerTest, FullDiskLeavesTheLedgerAsItWas) {
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 1)).ok());
  const std::string before = text();
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    // A limit on file size makes write() stop short in the middle of the line, like a full disk.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{before.size() + 100, before.size() + 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto failed = ledger_.append(bench_event("rmsnorm", 2));
    if (failed.ok()) ::_exit(1);
    if (failed.error().what.find("cannot append to the ledger") == std::string::npos) ::_exit(2);
    if (failed.error().remedy.find("free some space") == std::string::npos) ::_exit(3);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(text(), before);
}

TEST_F(LedgerTest, PathThatCannotBeALedgerIsAClearError) {
  ASSERT_TRUE(make_directories(path_).ok());
  const auto appended = ledger_.append(bench_event("rmsnorm", 1));
  ASSERT_FALSE(appended.ok());
  EXPECT_THAT(appended.error().what, HasSubstr(path_.string()));
  EXPECT_FALSE(appended.error().remedy.empty());
}

TEST_F(LedgerTest, RepairMovesBadLinesAsideAndKeepsTheRest) {
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 1)).ok());
  const std::string good = text();
  const std::string future = R"({"ledger_schema_version": 9})";
  write(good + "{torn\n" + future + "\n{\"a\":1}\n");
  const auto repair = repair_ledger(path_);
  ASSERT_TRUE(repair.ok()) << repair.error().what;
  EXPECT_EQ(repair->kept, 2);
  EXPECT_EQ(repair->quarantined, 2);
  EXPECT_EQ(text(), good + future + "\n");
  EXPECT_EQ(read_file(repair->quarantine).value(), "{torn\n{\"a\":1}\n");
  EXPECT_EQ(repair_ledger(path_)->quarantined, 0);
  EXPECT_EQ(text(), good + future + "\n");
}

TEST_F(LedgerTest, AppendDuringRepairIsNotLost) {
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 1)).ok());
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    for (int i = 0; i < 200; ++i)
      if (!ledger_.append(bench_event("during", i)).ok()) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    { std::ofstream(path_, std::ios::app) << "{torn\n"; }
    ASSERT_TRUE(repair_ledger(path_).ok());
    ::usleep(2000);  // locks are not fair: let the writer have a turn
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(ledger_.query({.target = "during"})->events.size(), 200u);
}

TEST_F(LedgerTest, MergeIsTheUnionInOrderAndMergingAgainChangesNothing) {
  const fs::path other_path = folder_.path() / "other.jsonl", merged = folder_.path() / "all.jsonl";
  const Ledger other(other_path);
  auto early = bench_event("rmsnorm", 1), late = bench_event("rmsnorm", 2),
       shared = bench_event("rmsnorm", 3);
  early.created_at = "2026-01-01T00:00:00.000000Z";
  shared.created_at = "2026-01-02T00:00:00.000000Z";
  late.created_at = "2026-01-03T00:00:00.000000Z";
  ASSERT_TRUE(ledger_.append(late).ok());
  ASSERT_TRUE(ledger_.append(shared).ok());
  ASSERT_TRUE(other.append(shared).ok());
  ASSERT_TRUE(other.append(early).ok());
  { std::ofstream(other_path, std::ios::app) << "{torn\n"; }

  const auto merge = merge_ledgers({path_, other_path}, merged);
  ASSERT_TRUE(merge.ok()) << merge.error().what;
  EXPECT_EQ(merge->events, 3);
  EXPECT_EQ(merge->duplicates, 1);
  EXPECT_EQ(merge->set_aside.torn, 1);
  std::vector<double> order;
  const auto reading = Ledger(merged).read().value();
  for (const auto& event : reading.events) order.push_back(*event.metric_value);
  EXPECT_THAT(order, ElementsAre(1, 3, 2));

  const std::string once = read_file(merged).value();
  ASSERT_TRUE(merge_ledgers({path_, other_path, merged}, merged).ok());
  EXPECT_EQ(read_file(merged).value(), once);
  ASSERT_TRUE(merge_ledgers({other_path}, merged).ok());
  EXPECT_EQ(read_file(merged).value(), once);
  EXPECT_FALSE(merge_ledgers({folder_.path() / "missing.jsonl"}, merged).ok());
  EXPECT_EQ(read_file(merged).value(), once);
}

TEST_F(LedgerTest, StatsCountWhatTheLedgerHolds) {
  ASSERT_TRUE(ledger_.append(bench_event("rmsnorm", 1)).ok());
  ASSERT_TRUE(ledger_.append(bench_event("loss_prelude", 1)).ok());
  const auto stats = ledger_stats(path_);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->by_event_type.at("bench"), 2);
  EXPECT_EQ(stats->by_target.at("rmsnorm"), 1);
  EXPECT_LE(stats->first_created_at, stats->last_created_at);
}

}  // namespace
}  // namespace kl
