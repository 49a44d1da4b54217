#include <lab/core/files.hpp>
#include <lab/core/json.hpp>
#include <lab/trace/chrome.hpp>
#include <lab/trace/import/import.hpp>
#include <lab/trace/sqlite.hpp>
#include <lab/trace/store.hpp>
#include <lab/trace/test_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

namespace kl::trace {
namespace {

using testing::HasSubstr;

// A bit of everything, activities of all kinds mixed.
TraceModel everything() {
  ModelBuilder b;
  b.device(0, "card \"one\"").device(1, "");
  b.model.streams = {{0, 7, "compute"}, {1, 9, ""}};
  b.kernel(0, 10, 0, 7, 1, "void k<int>(int)").op = b.model.names.id("aten::mm");
  b.item(ActivityKind::copy, 5, 30, 1, 9, 2, "HtoD").bytes = 4096;
  b.kernel(30, 31).graph_node = 5;
  b.item(ActivityKind::set, 40, 41, 0, 7).bytes = 16;
  b.kernel(50, 50);
  b.call("cudaLaunchKernel", -3, -1, 1).call("cudaMemcpyAsync", 1, 2, 2).call("cudaFree", 60, 61);
  b.range(RangeKind::step, "step 3", 0, 100).range(RangeKind::seam, "rmsnorm/forward", 1, 2).range(RangeKind::user, "näme", 3, 4);
  b.model.overheads.push_back({{70'000, 71'000}, b.model.names.id("flush")});
  b.model.gaps = {{GapKind::dropped, 3, "3 records"}, {GapKind::graph_granular, 0, "one graph"}};
  b.model.graph_nodes[5] = "rmsnorm/forward";
  b.model.metadata["KERNEL_LAB_PRESET"] = "smoke";
  return b.model;
}

// As of reports that say no moments.
TraceModel sums_only() {
  ModelBuilder b;
  b.model.totals = {{ActivityKind::kernel, b.model.names.id("k"), 4, 100}, {ActivityKind::copy, b.model.names.id("HtoD"), 3, 17}};
  b.model.gaps = {{GapKind::no_timeline, 0, "sums"}};
  return b.model;
}

TraceModel of_the_host() {
  ModelBuilder b;
  b.range(RangeKind::step, "step 3", 0, 100).range(RangeKind::seam, "rmsnorm/forward", 1, 2).range(RangeKind::work, "matmul/2x3x4", 3, 90);
  b.model.steps_are_the_window = true;
  make_ranges_the_device(b.model, "cpu, some model");
  return b.model;
}

class StoreTest : public testing::Test {
 protected:
  fs::path file(const char* name = "t.sqlite") const { return folder_.path() / name; }
  // Changes a stored trace as SQL says, and reads it.
  Result<TraceModel> altered(const TraceModel& model, const std::string& sql) const {
    KL_CHECK(write_trace(model, file()));
    sqlite3* raw = nullptr;
    sqlite3_open(file().c_str(), &raw);
    const Database database(raw);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    return read_trace(file());
  }
  TemporaryFolder folder_ = std::move(*TemporaryFolder::create("kl-trace"));
};

const Gap* unreadable(const TraceModel& model) {
  for (const Gap& gap : model.gaps)
    if (gap.kind == GapKind::unreadable) return &gap;
  return nullptr;
}

TEST_F(StoreTest, a_trace_comes_back_equal) {
  for (const TraceModel& model : {everything(), of_the_host(), sums_only()}) {
    ASSERT_TRUE(write_trace(model, file()).ok());
    const auto back = read_trace(file());
    ASSERT_TRUE(back.ok()) << back.error().what;
    EXPECT_TRUE(same(model, *back));
    ASSERT_TRUE(write_trace(*back, file("again.sqlite")).ok());
    const auto again = read_trace(file("again.sqlite"));
    EXPECT_TRUE(again.ok() && same(*back, *again));
  }
}

TEST_F(StoreTest, the_host_as_device_comes_back_with_its_activities) {
  const TraceModel model = of_the_host();
  ASSERT_TRUE(write_trace(model, file()).ok());
  const auto back = read_trace(file());
  ASSERT_TRUE(back.ok()) << back.error().what;
  EXPECT_TRUE(same(model, *back));
  EXPECT_EQ(back->devices[0].name, "cpu, some model");
  EXPECT_EQ(back->activities.size(), 2u);
  sqlite3* raw = nullptr;
  sqlite3_open(file().c_str(), &raw);
  const Database database(raw);
  EXPECT_FALSE(Statement(raw, "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL").good()) << "ranges are no kernels in the file";
}

TEST_F(StoreTest, an_old_file_is_replaced_whole_and_nothing_stays_beside_it) {
  ASSERT_TRUE(write_trace(everything(), file()).ok());
  ASSERT_TRUE(write_trace(of_the_host(), file()).ok());
  EXPECT_EQ(read_trace(file())->ranges.size(), 3u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{}), 1);
  EXPECT_FALSE(write_trace(everything(), "/proc/nowhere/t.sqlite").ok());
  EXPECT_FALSE(write_trace(everything(), "/dev/full/t.sqlite").ok());
}

TEST_F(StoreTest, what_is_no_trace_is_refused_by_name) {
  const auto outcome = [&](std::string_view content) {
    EXPECT_TRUE(write_file_atomic(file("x"), content).ok());
    return read_trace(file("x")).error();
  };
  EXPECT_EQ(read_trace(file("absent")).error().status, Status::usage);
  EXPECT_EQ(read_trace(folder_.path()).error().status, Status::usage);
  EXPECT_EQ(outcome("").status, Status::insufficient_trace_data);
  EXPECT_THAT(outcome("").what, HasSubstr("is empty"));
  EXPECT_EQ(outcome("ELF\x7f what").status, Status::usage);
  EXPECT_THAT(outcome("%PDF-1.4 and so on").what, HasSubstr("it begins with \"%PDF-1.4 and\""));
  ASSERT_TRUE(write_file_atomic(file("t.metadata.json"), "{}").ok());
  EXPECT_THAT(read_trace(file("t.metadata.json")).error().remedy, HasSubstr("t.sqlite"));
  EXPECT_THAT(outcome("SQLite for").what, HasSubstr("ends after 10 bytes"));
  EXPECT_EQ(outcome(std::string("SQLite format 3\0 and then nothing of it", 39)).status, Status::insufficient_trace_data);
}

TEST_F(StoreTest, a_file_cut_anywhere_is_an_error_or_a_stated_loss) {
  ModelBuilder b;
  b.device(0, "a");
  for (int i = 0; i < 3000; ++i) b.kernel(i * 10, i * 10 + 5, 0, 7, i, "kernel " + std::to_string(i));
  ASSERT_TRUE(write_trace(b.model, file()).ok());
  const std::string whole = *read_file(file());
  int kept = 0;
  for (size_t size = 1; size < whole.size(); size += whole.size() / 60) {
    ASSERT_TRUE(write_file_atomic(file("cut"), whole.substr(0, size)).ok());
    const auto read = read_trace(file("cut"));
    if (!read.ok()) {
      EXPECT_THAT(read.error().what, HasSubstr("cut"));
      continue;
    }
    ++kept;
    EXPECT_NE(unreadable(*read), nullptr) << size;
    if (size + 4096 < whole.size()) {
      EXPECT_LT(read->activities.size(), 3000u);
    }
  }
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {  // bytes changed: no crash, whatever is answered
    std::string damaged = whole;
    for (int i = 0; i < 20; ++i) damaged[16 + random() % (damaged.size() - 16)] = static_cast<char>(random());
    ASSERT_TRUE(write_file_atomic(file("cut"), damaged).ok());
    const auto read = read_trace(file("cut"));
    if (read.ok()) continue;
    EXPECT_EQ(read.error().status, Status::insufficient_trace_data) << read.error().what;
  }
}

TEST_F(StoreTest, a_missing_table_or_column_is_said) {
  const auto no_ranges = altered(everything(), "DROP TABLE NVTX_EVENTS");
  ASSERT_TRUE(no_ranges.ok());
  EXPECT_EQ(no_ranges->gaps.back().kind, GapKind::no_ranges);
  const auto no_start = altered(everything(), "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN start TO began");
  ASSERT_TRUE(no_start.ok());
  ASSERT_NE(unreadable(*no_start), nullptr);
  EXPECT_THAT(unreadable(*no_start)->what, HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL has no column start"));
  EXPECT_EQ(no_start->activities.size(), 2u);
  const auto nothing = altered(everything(), "DROP TABLE NVTX_EVENTS; DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE "
                                             "CUPTI_ACTIVITY_KIND_MEMCPY; DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET; DROP TABLE "
                                             "CUPTI_ACTIVITY_KIND_RUNTIME");
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().status, Status::insufficient_trace_data);
}

TEST_F(StoreTest, a_view_that_never_ends_is_not_run) {
  const auto read = altered(everything(), "DROP TABLE NVTX_EVENTS; CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE f(start) AS (SELECT 1 UNION ALL "
                                          "SELECT start + 1 FROM f) SELECT start, start AS end FROM f");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->ranges.empty());
}

TEST_F(StoreTest, senseless_rows_are_left_out_and_counted) {
  const auto read = altered(everything(),
                            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE ordinal = 0;"
                            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 9223372036854775807, end = 9223372036854775807 WHERE ordinal = 2;"
                            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE ordinal = 4");
  ASSERT_TRUE(read.ok());
  ASSERT_NE(unreadable(*read), nullptr);
  EXPECT_EQ(unreadable(*read)->count, 3);
  EXPECT_THAT(unreadable(*read)->what, HasSubstr("3 of 3 rows left out"));
  EXPECT_EQ(read->activities.size(), 2u);
}

TEST_F(StoreTest, an_export_of_nsight_systems_is_not_taken_for_our_own) {
  const auto read = altered(everything(), "UPDATE META_DATA_EXPORT SET value = 'NVIDIA Nsight Systems' WHERE name = 'EXPORT_PRODUCT_NAME'");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->format, "nsys");
  EXPECT_EQ(read->ranges[0].kind, RangeKind::user) << "its categories mean something else";
}

TEST(chrome, every_event_is_there_and_no_nanosecond_is_lost) {
  TraceModel model = everything();
  model.activities[0].span = {1, 1'234'567'891'234};
  const auto json = parse_json(chrome_json(model).json, "chrome");
  ASSERT_TRUE(json.ok()) << json.error().what;
  int events = 0, names = 0;
  for (const Json& event : (*json)["traceEvents"]) (event["ph"] == "X" ? events : names)++;
  EXPECT_EQ(events, 5 + 3 + 3 + 1);
  EXPECT_EQ(chrome_json(model).events, events);
  EXPECT_EQ(chrome_json(of_the_host()).events, 3) << "once, as ranges";
  EXPECT_EQ(names, 4);
  EXPECT_THAT(chrome_json(model).json, HasSubstr(R"("dur":1234567891.233)"));
  EXPECT_THAT(chrome_json(model).json, HasSubstr(R"(card \"one\")"));
}

}  // namespace
}  // namespace kl::trace
