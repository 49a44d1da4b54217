#include <lab/trace/import/test_import.hpp>

#include <fmt/format.h>

namespace kl::trace {
namespace {

constexpr std::string_view kRun = "_00001f3c_8a52_7c11_9d40_0123456789ab";

// Two kernels and a copy of one process, a HIP call, an HSA call and a marker. Schema 4 keeps times and threads apart.
std::string rocpd(bool fourth) {
  std::string sql = "CREATE TABLE \"rocpd_metadata@\" (id INTEGER, tag TEXT, value TEXT);"
                    "INSERT INTO \"rocpd_metadata@\" VALUES (1, 'schema_version', '#');"
                    "CREATE TABLE \"rocpd_string@\" (id INTEGER, string TEXT);"
                    "INSERT INTO \"rocpd_string@\" VALUES (1, 'hipLaunchKernel'), (2, 'hsa_signal_wait'), (3, 'forward'), (4, 'MEMORY_COPY_HOST_TO_DEVICE'),"
                    "(5, 'HIP_RUNTIME_API'), (6, 'HSA_CORE_API'), (7, 'MARKER_CORE_API');"
                    "CREATE TABLE \"rocpd_info_kernel_symbol@\" (id INTEGER, kernel_name TEXT, display_name TEXT);"
                    "INSERT INTO \"rocpd_info_kernel_symbol@\" VALUES (8, '_Z1kv.kd', 'k()'), (9, 'raw.kd', NULL);"
                    "CREATE TABLE \"rocpd_info_agent@\" (id INTEGER, type TEXT, type_index INTEGER, name TEXT, product_name TEXT);"
                    "INSERT INTO \"rocpd_info_agent@\" VALUES (0, 'CPU', 0, 'EPYC', ''), (4, 'GPU', 1, 'gfx942', 'MI300X');"
                    "CREATE TABLE \"rocpd_event@\" (id INTEGER, stack_id INTEGER, category_id INTEGER);"
                    "INSERT INTO \"rocpd_event@\" VALUES (1, 70, 5), (2, 71, 6), (3, 0, 7), (4, 70, NULL), (5, 70, NULL), (6, 72, NULL);";
  if (fourth)
    sql += "CREATE TABLE \"rocpd_track@\" (id INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, stream_id INTEGER);"
           "INSERT INTO \"rocpd_track@\" VALUES (1, 50, 51, NULL, NULL), (2, 50, 51, 4, 3);"
           "CREATE TABLE \"rocpd_timestamp@\" (id INTEGER, value INTEGER);"
           "INSERT INTO \"rocpd_timestamp@\" VALUES (1, 100), (2, 110), (3, 90), (4, 120), (5, 200), (6, 300), (7, 310), (8, 330), (9, 400), (10, 450);"
           "CREATE TABLE \"rocpd_region@\" (id INTEGER, track_id INTEGER, start_id INTEGER, end_id INTEGER, name_id INTEGER, event_id INTEGER);"
           "INSERT INTO \"rocpd_region@\" VALUES (1, 1, 1, 2, 1, 1), (2, 1, 1, 2, 2, 2), (3, 1, 3, 4, 3, 3);"
           "CREATE TABLE \"rocpd_kernel_dispatch@\" (id INTEGER, track_id INTEGER, kernel_id INTEGER, start_id INTEGER, end_id INTEGER, event_id INTEGER);"
           "INSERT INTO \"rocpd_kernel_dispatch@\" VALUES (1, 2, 8, 5, 6, 4), (2, 2, 9, 7, 8, 5);"
           "CREATE TABLE \"rocpd_memory_copy@\" (id INTEGER, track_id INTEGER, start_id INTEGER, end_id INTEGER, name_id INTEGER, size INTEGER, event_id INTEGER);"
           "INSERT INTO \"rocpd_memory_copy@\" VALUES (1, 2, 9, 10, 4, 64, 6);";
  else
    sql += "CREATE TABLE \"rocpd_region@\" (id INTEGER, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER, name_id INTEGER, event_id INTEGER);"
           "INSERT INTO \"rocpd_region@\" VALUES (1, 50, 51, 100, 110, 1, 1), (2, 50, 51, 100, 110, 2, 2), (3, 50, 51, 90, 120, 3, 3);"
           "CREATE TABLE \"rocpd_kernel_dispatch@\" (id INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER, queue_id INTEGER, stream_id INTEGER,"
           "start INTEGER, end INTEGER, event_id INTEGER);"
           "INSERT INTO \"rocpd_kernel_dispatch@\" VALUES (1, 50, 51, 4, 8, 1, 3, 200, 300, 4), (2, 50, 51, 4, 9, 1, 3, 310, 330, 5);"
           "CREATE TABLE \"rocpd_memory_copy@\" (id INTEGER, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER, name_id INTEGER, dst_agent_id INTEGER,"
           "src_agent_id INTEGER, size INTEGER, stream_id INTEGER, event_id INTEGER);"
           "INSERT INTO \"rocpd_memory_copy@\" VALUES (1, 50, 51, 400, 450, 4, 0, 4, 64, 3, 6);";
  std::string made;
  for (const char c : sql)
    if (c == '@') made += kRun;
    else if (c == '#') made += fourth ? "4.0.0" : "3";
    else made += c;
  return made;
}

class RocpdTest : public ImportTest {};

TEST_F(RocpdTest, both_schemas_say_the_same) {
  for (const bool fourth : {false, true}) {
    const auto model = read(database(rocpd(fourth)));
    ASSERT_TRUE(model.ok()) << model.error().what;
    EXPECT_EQ(model->format, "rocpd");
    EXPECT_EQ(model->source_version, fourth ? "4.0.0" : "3");
    EXPECT_EQ(model->devices, (std::vector<Device>{{1, "MI300X"}})) << fourth;
    ASSERT_EQ(model->activities.size(), 3u);
    EXPECT_EQ(model->names[model->activities[0].name], "k()");
    EXPECT_EQ(model->names[model->activities[1].name], "raw.kd");
    EXPECT_EQ(model->activities[0].span, (Span{200, 300}));
    EXPECT_EQ(model->activities[0].stream, 3);
    EXPECT_EQ(model->activities[2].bytes, 64);
    EXPECT_EQ(model->activities[2].device, 1) << "of a copy to the host, the device that it leaves";
    ASSERT_EQ(model->calls.size(), 1u) << "HSA calls happen inside HIP's";
    EXPECT_EQ(model->calls[0].thread, thread_number(50, 51));
    EXPECT_EQ(std::tuple(model->calls[0].correlation, model->calls[0].process),
              std::tuple(model->activities[0].correlation, model->activities[0].process));
    ASSERT_EQ(model->ranges.size(), 1u);
    EXPECT_EQ(model->names[model->ranges[0].name], "forward");
    EXPECT_TRUE(model->gaps.empty());
  }
}

TEST_F(RocpdTest, what_is_missing_or_senseless_is_said) {
  const std::string run(kRun);
  const auto none = read(database(rocpd(false) + "DROP TABLE \"rocpd_kernel_dispatch" + run + "\"; DROP TABLE \"rocpd_memory_copy" + run + "\""));
  ASSERT_TRUE(none.ok());
  EXPECT_NE(gap_of(*none, GapKind::no_device_work), nullptr);
  const auto negative = read(database(rocpd(false) + "UPDATE \"rocpd_kernel_dispatch" + run + "\" SET end = 1 WHERE id = 1"));
  ASSERT_TRUE(negative.ok());
  EXPECT_EQ(negative->activities.size(), 2u);
  EXPECT_EQ(gap_of(*negative, GapKind::unreadable)->count, 1);
}

TEST_F(RocpdTest, cut_or_damaged_anywhere_there_is_a_named_outcome) {
  expect_named_outcomes(database(rocpd(false)));
  expect_named_outcomes(database(rocpd(true)));
}

class RpdTest : public ImportTest {
 protected:
  const std::string sql_ =
      "CREATE TABLE rocpd_metadata (id INTEGER, tag TEXT, value TEXT); INSERT INTO rocpd_metadata VALUES (1, 'schema_version', '2');"
      "CREATE TABLE rocpd_string (id INTEGER, string TEXT); INSERT INTO rocpd_string VALUES (1, 'hipLaunchKernel'), (2, 'UserMarker'), (3, 'forward'),"
      "(4, 'KernelExecution'), (5, 'k'), (6, 'CopyHostToDevice'), (7, ''), (8, 'MarkerBarrier');"
      "CREATE TABLE rocpd_api (id INTEGER, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER, apiName_id INTEGER, args_id INTEGER);"
      "INSERT INTO rocpd_api VALUES (20, 50, 51, 100, 110, 1, 7), (21, 50, 51, 90, 120, 2, 3);"
      "CREATE TABLE rocpd_op (id INTEGER, gpuId INTEGER, queueId INTEGER, start INTEGER, end INTEGER, description_id INTEGER, opType_id INTEGER);"
      "INSERT INTO rocpd_op VALUES (1, 2, 0, 200, 300, 5, 4), (2, 2, 1, 310, 320, 7, 6), (3, 2, 1, 330, 340, 7, 8);"
      "CREATE TABLE rocpd_api_ops (id INTEGER, api_id INTEGER, op_id INTEGER); INSERT INTO rocpd_api_ops VALUES (1, 20, 1);";
};

TEST_F(RpdTest, operations_calls_and_markers_are_read) {
  const auto model = read(database(sql_));
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(model->format, "rpd");
  ASSERT_EQ(model->activities.size(), 2u) << "barriers are no work";
  EXPECT_EQ(model->names[model->activities[0].name], "k");
  EXPECT_EQ(model->activities[1].kind, ActivityKind::copy);
  EXPECT_EQ(model->names[model->activities[1].name], "CopyHostToDevice");
  EXPECT_EQ(model->activities[0].device, 2);
  ASSERT_EQ(model->calls.size(), 1u);
  EXPECT_EQ(std::tuple(model->calls[0].correlation, model->calls[0].process),
            std::tuple(model->activities[0].correlation, model->activities[0].process));
  EXPECT_EQ(model->names[model->ranges[0].name], "forward");
}

TEST_F(RpdTest, a_missing_table_or_column_is_said) {
  const auto no_ops = read(database(sql_ + "DROP TABLE rocpd_op"));
  ASSERT_TRUE(no_ops.ok());
  EXPECT_NE(gap_of(*no_ops, GapKind::no_device_work), nullptr);
  const auto no_start = read(database(sql_ + "ALTER TABLE rocpd_op RENAME COLUMN start TO began"));
  ASSERT_TRUE(no_start.ok());
  EXPECT_THAT(gap_of(*no_start, GapKind::unreadable)->what, testing::HasSubstr("rocpd_op has no column start"));
  EXPECT_EQ(read(database("CREATE TABLE rocpd_op (id INTEGER)")).error().status, Status::insufficient_trace_data);
}

TEST_F(RpdTest, cut_or_damaged_anywhere_there_is_a_named_outcome) { expect_named_outcomes(database(sql_)); }

}  // namespace
}  // namespace kl::trace
