#include <lab/trace/import/test_import.hpp>
#include <lab/trace/summary.hpp>

#include <fmt/format.h>

namespace kl::trace {
namespace {

using testing::HasSubstr;

constexpr int64_t kProcess = thread_number(41, 0), kOther = thread_number(42, 0);

std::string strings() {
  return "CREATE TABLE StringIds (id INTEGER, value TEXT);"
         "INSERT INTO StringIds VALUES (1, 'void k<float>(float*)'), (2, 'k'), (3, 'cudaLaunchKernel_v7000'), (4, 'cudaStreamSynchronize_v3020'),"
         "(5, 'step');";
}
std::string kernels(std::string_view table = "CUPTI_ACTIVITY_KIND_KERNEL") {
  return fmt::format("CREATE TABLE {0} (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
                     "demangledName INTEGER, shortName INTEGER); INSERT INTO {0} VALUES (100, 200, 0, 7, 1, {1}, 1, 2), (300, 500, 0, 7, 1, {2}, 1, 2);",
                     table, kProcess, kOther);
}
std::string calls(std::string_view table = "CUPTI_ACTIVITY_KIND_RUNTIME") {
  return fmt::format("CREATE TABLE {0} (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"
                     "INSERT INTO {0} VALUES (90, 95, {1}, 1, 3), (290, 299, {2}, 1, 3);",
                     table, kProcess + 5, kOther + 6);
}
std::string diagnostics(std::string_view rows) {
  return fmt::format("CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT); INSERT INTO DIAGNOSTIC_EVENT VALUES {};", rows);
}

class NsysTest : public ImportTest {};

TEST_F(NsysTest, a_kernel_joins_the_call_of_its_process) {
  const auto model = read(database(strings() + kernels() + calls()));
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(model->format, "nsys");
  const auto attributed = attribute(*model);
  EXPECT_EQ(attributed.call(0), 0);
  EXPECT_EQ(attributed.call(1), 1);
  EXPECT_EQ(model->names[model->activities[0].name], "void k<float>(float*)");
}

TEST_F(NsysTest, without_processes_the_correlation_alone_joins) {
  const auto model = read(database(strings() + kernels() + calls() + "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid"));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(attribute(*model).call(0), 0);
}

TEST_F(NsysTest, later_versions_of_a_table_are_read) {
  const auto model = read(database(strings() + kernels("CUPTI_ACTIVITY_KIND_KERNEL_V3") + calls("CUPTI_ACTIVITY_KIND_RUNTIME_V2")));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->activities.size(), 2u);
  EXPECT_EQ(model->calls.size(), 2u);
}

TEST_F(NsysTest, copies_are_named_with_and_without_the_enumerations) {
  const std::string copies = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, bytes INTEGER, copyKind INTEGER,"
                             "srcKind INTEGER, dstKind INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2, 0, 64, 1, 1, 2);"
                             "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, memKind INTEGER);"
                             "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (3, 4, 0, 2);";
  const auto plain = read(database(copies));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->names[plain->activities[0].name], "Memcpy Host-to-Device (Pinned -> Device)") << "1 is pinned here, pageable in CUPTI";
  EXPECT_EQ(plain->names[plain->activities[1].name], "Memset (Device)");
  const auto labelled = read(database(copies + "CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER, name TEXT, label TEXT);"
                                               "INSERT INTO ENUM_CUDA_MEM_KIND VALUES (1, 'X', 'Marble')"));
  EXPECT_EQ(labelled->names[labelled->activities[0].name], "Memcpy Host-to-Device (Marble -> Device)");
}

TEST_F(NsysTest, without_kernels_the_tools_own_reason_is_given) {
  const std::string said = diagnostics("(0, 1, 'Profiling has started.'), (1, 2, 'a warning'), (2, 4, 'verbose'), (3, 3, 'CUPTI_ERROR_INVALID_DEVICE')");
  const auto nothing = read(database(strings() + said));
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().status, Status::insufficient_trace_data);
  EXPECT_THAT(nothing.error().what, HasSubstr("the tool said: CUPTI_ERROR_INVALID_DEVICE"));
  const auto host_only = read(database(strings() + calls() + diagnostics("(0, 2, 'No CUDA activity')")));
  ASSERT_TRUE(host_only.ok());
  EXPECT_THAT(gap_of(*host_only, GapKind::no_device_work)->what, HasSubstr("No CUDA activity"));
  EXPECT_EQ(summarise(*host_only).bottleneck.label, "insufficient-trace-data");
}

TEST_F(NsysTest, a_whole_graph_is_one_item_and_a_gap) {
  const auto model = read(database(strings() + calls() + fmt::format(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,"
      "globalPid INTEGER, graphId INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (100, 900, 0, 7, 1, {}, 12)", kProcess)));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->names[model->activities[0].name], "CUDA graph 12");
  ASSERT_NE(gap_of(*model, GapKind::graph_granular), nullptr);
  EXPECT_EQ(gap_of(*model, GapKind::graph_granular)->count, 1);
}

TEST_F(NsysTest, a_wait_of_the_device_counts_only_without_its_call) {
  const auto waits = [](int64_t correlation, int kind) {
    return fmt::format("CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, correlationId INTEGER, globalPid INTEGER,"
                       "syncType INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (400, 450, {}, {}, {});", correlation, kProcess, kind);
  };
  EXPECT_EQ(summarise(*read(database(strings() + kernels() + calls() + waits(1, 3)))).host.sync_sum_ns, 0) << "its call is there";
  EXPECT_EQ(summarise(*read(database(strings() + kernels() + calls() + waits(9, 1)))).host.sync_sum_ns, 50);
  EXPECT_EQ(read(database(strings() + kernels() + calls() + waits(9, 2)))->calls.size(), 2u) << "a stream waits, not the host";
}

TEST_F(NsysTest, devices_are_the_machines_and_only_those_that_worked) {
  const auto model = read(database(strings() + kernels() +
                                   "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0, 'a'), (1, 'b'), (2, 'c');"
                                   "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER);"
                                   "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 41), (2, 0, 42)"));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->devices, (std::vector<Device>{{1, "b"}, {2, "c"}}));
  EXPECT_EQ(model->activities[0].device, 1);
  EXPECT_EQ(model->activities[1].device, 2);
}

TEST_F(NsysTest, marks_are_no_ranges_that_were_cut_off) {
  const auto model = read(database(strings() + kernels() +
                                   "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER);"
                                   "INSERT INTO NVTX_EVENTS VALUES (1, NULL, 34, 'mark', NULL), (1, NULL, 75, 'domain', NULL), (1, 9, 59, NULL, 5),"
                                   "(5, NULL, 59, 'open', NULL)"));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->ranges.size(), 1u);
  EXPECT_EQ(gap_of(*model, GapKind::window_cut)->count, 1);
}

TEST_F(NsysTest, ids_that_repeat_and_missing_strings_do_no_harm) {
  const auto model = read(database(strings() + kernels() + calls() + "INSERT INTO StringIds VALUES (1, 'again'); DELETE FROM StringIds WHERE id = 3;"
                                   "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME"));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->names[model->calls[0].name], "string 3");
  EXPECT_EQ(attribute(*model).call(0), 0) << "of calls with one id, the first";
}

TEST_F(NsysTest, cut_or_damaged_anywhere_there_is_a_named_outcome) {
  expect_named_outcomes(database(strings() + kernels() + calls() + diagnostics("(0, 3, 'x')")));
}

TEST(nsys_samples, each_is_read_whole) {
  KL_SKIP_WITHOUT_SAMPLES();
  struct Sample {
    const char* file;
    size_t activities, calls, ranges;
    bool graphs;
  };
  for (const Sample& sample : {Sample{"flameox_nsight-2025.5.2", 6, 33, 0, true}, Sample{"nsightful_power_iteration", 3778, 7418, 786, false},
                               Sample{"nsysai_healthy_1pct", 400, 400, 0, false}, Sample{"nsysai_mfu_before", 5299, 7466, 19118, false},
                               Sample{"nsysai_mock", 3, 9, 0, false}}) {
    const auto model = read_trace(samples() / "nsys" / fmt::format("{}.sqlite", sample.file));
    ASSERT_TRUE(model.ok()) << model.error().what;
    EXPECT_EQ(model->activities.size(), sample.activities) << sample.file;
    EXPECT_EQ(model->calls.size(), sample.calls) << sample.file;
    EXPECT_EQ(model->ranges.size(), sample.ranges) << sample.file;
    EXPECT_EQ(gap_of(*model, GapKind::graph_granular) != nullptr, sample.graphs) << sample.file;
    EXPECT_EQ(gap_of(*model, GapKind::unreadable), nullptr) << sample.file;
  }
}

}  // namespace
}  // namespace kl::trace
