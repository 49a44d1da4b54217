// Trace files made by hand, and the real ones of the folder that KERNEL_LAB_SAMPLES names, for tests.
#pragma once

#include <lab/core/files.hpp>
#include <lab/trace/import/import.hpp>
#include <lab/trace/sqlite.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace kl::trace {

class ImportTest : public testing::Test {
 protected:
  Result<TraceModel> read(std::string_view content, const char* name = "t") const {
    EXPECT_TRUE(write_file_atomic(folder_.path() / name, content).ok());
    return read_trace(folder_.path() / name);
  }
  // A database of what the SQL says.
  std::string database(const std::string& sql) const {
    const fs::path path = folder_.path() / "made.sqlite";
    fs::remove(path);
    sqlite3* raw = nullptr;
    sqlite3_open(path.c_str(), &raw);
    const Database closes(raw);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    return *read_file(path);
  }
  // Every prefix of some lengths, and every one with some bytes changed: an error or a model, never a crash.
  void expect_named_outcomes(const std::string& whole) const {
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) expect_named(read(whole.substr(0, size)));
    uint32_t random = 1;
    for (int round = 0; round < 200; ++round) {
      std::string damaged = whole;
      for (int i = 0; i < 4; ++i) {
        random = random * 1664525 + 1013904223;
        damaged[(random >> 8) % damaged.size()] = static_cast<char>(random >> 3);
      }
      expect_named(read(damaged));
    }
  }
  static void expect_named(const Result<TraceModel>& read) {
    if (read.ok()) return;
    EXPECT_TRUE(read.error().status == Status::usage || read.error().status == Status::insufficient_trace_data ||
                read.error().status == Status::missing_profiler_summary || read.error().status == Status::insufficient_metrics)
        << to_string(read.error().status) << ": " << read.error().what;
    EXPECT_FALSE(read.error().what.empty());
    EXPECT_FALSE(read.error().remedy.empty()) << read.error().what;
  }
  TemporaryFolder folder_ = std::move(*TemporaryFolder::create("kl-import"));
};

// Empty when the variable is not set: such a test then says that it was skipped.
inline fs::path samples() {
  const char* folder = std::getenv("KERNEL_LAB_SAMPLES");
  return folder == nullptr ? fs::path() : fs::path(folder);
}
#define KL_SKIP_WITHOUT_SAMPLES() \
  if (samples().empty()) GTEST_SKIP() << "KERNEL_LAB_SAMPLES is not set"

inline const Gap* gap_of(const TraceModel& model, GapKind kind) {
  for (const Gap& gap : model.gaps)
    if (gap.kind == kind) return &gap;
  return nullptr;
}

}  // namespace kl::trace
