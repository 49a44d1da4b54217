#include <lab/trace/import/test_import.hpp>

namespace kl::trace {
namespace {

class RocprofTest : public ImportTest {};

TEST_F(RocprofTest, kernels_of_old_and_new_versions_are_read) {
  const std::string old = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Thread_Id\",\"Dispatch_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n"
                          "\"KERNEL_DISPATCH\",1,2,69,1,16,\"void k<float>(float*, int)\",1451,8819330200067564,8819330200116308\n";
  const std::string fresh = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n"
                            "\"KERNEL_DISPATCH\",\"Agent 1\",9,2,69,\"void k<float>(float*, int)\",1451,8819330200067564,8819330200116308\n";
  const std::string first = "\"Index\",\"KernelName\",\"gpu-id\",\"queue-id\",\"BeginNs\",\"EndNs\"\n0,\"void k<float>(float*, int)\",1,2,8819330200067564,8819330200116308\n";
  for (const std::string& text : {old, fresh, first}) {
    const auto model = read(text);
    ASSERT_TRUE(model.ok()) << model.error().what;
    EXPECT_EQ(model->format, "rocprof");
    ASSERT_EQ(model->activities.size(), 1u);
    EXPECT_EQ(model->activities[0].span, (Span{8819330200067564, 8819330200116308}));
    EXPECT_EQ(std::tuple(model->activities[0].device, model->activities[0].stream), std::tuple(1, 2));
    EXPECT_EQ(model->names[model->activities[0].name], "void k<float>(float*, int)");
    expect_named_outcomes(text);
  }
}

TEST_F(RocprofTest, copies_calls_and_markers_are_read) {
  const auto copies = read("\"Kind\",\"Direction\",\"Source_Agent_Id\",\"Destination_Agent_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n"
                           "\"MEMORY_COPY\",\"MEMORY_COPY_DEVICE_TO_HOST\",3,0,0,5,9\n");
  ASSERT_TRUE(copies.ok());
  EXPECT_EQ(std::tuple(copies->activities[0].kind, copies->activities[0].device), std::tuple(ActivityKind::copy, 3));
  const auto calls = read("\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n"
                          "\"HIP_RUNTIME_API\",\"hipLaunchKernel\",5,6,7,10,20\n\"HSA_CORE_API\",\"hsa_x\",5,6,7,10,20\n\"MARKER_CORE_API\",\"forward\",5,6,8,1,30\n");
  ASSERT_TRUE(calls.ok());
  EXPECT_EQ(calls->calls.size(), 1u);
  EXPECT_EQ(calls->calls[0].kind, CallKind::launch);
  EXPECT_EQ(calls->names[calls->ranges.at(0).name], "forward");
  EXPECT_NE(gap_of(*calls, GapKind::no_device_work), nullptr);
}

TEST_F(RocprofTest, counters_are_kernels_only_where_they_have_times) {
  const auto old = read("\"Dispatch_Id\",\"Kernel_Name\",\"Counter_Name\",\"Counter_Value\"\n1,\"k\",\"SQ_WAVES\",5\n");
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().status, Status::insufficient_trace_data);
  EXPECT_THAT(old.error().what, testing::HasSubstr("counters by kernel, but no times"));
  const auto fresh = read("\"Dispatch_Id\",\"Kernel_Name\",\"Counter_Name\",\"Counter_Value\",\"Start_Timestamp\",\"End_Timestamp\"\n"
                          "1,\"k\",\"SQ_WAVES\",5,1,2\n1,\"k\",\"GRBM\",5,1,2\n2,\"k\",\"SQ_WAVES\",5,3,4\n");
  ASSERT_TRUE(fresh.ok());
  EXPECT_EQ(fresh->activities.size(), 2u);
}

TEST_F(RocprofTest, sums_missing_columns_and_bad_rows) {
  const auto sums = read("\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\"\n\"k\",3,300,100\n");
  ASSERT_TRUE(sums.ok());
  EXPECT_EQ(sums->totals.at(0).total_ns, 300);
  EXPECT_THAT(read("\"Kernel_Name\",\"Agent_Id\",\"Start_Timestamp\"\n\"k\",1,5\n").error().what, testing::HasSubstr("no column End_Timestamp"));
  const auto bad = read("\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n\"k\",5,4\n\"k\",5,99999999999999999999\n\"k\",5\n\"k\",1,2\n");
  ASSERT_TRUE(bad.ok());
  EXPECT_EQ(bad->activities.size(), 1u);
  EXPECT_EQ(gap_of(*bad, GapKind::unreadable)->count, 3);
  EXPECT_EQ(read("\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n").error().status, Status::insufficient_trace_data);
}

const std::string kJson = R"json({"rocprofiler-sdk-tool":[{"metadata":{"pid":50},"agents":[{"id":{"handle":11},"type":1,"name":"EPYC"},
  {"id":{"handle":12},"type":2,"name":"gfx950","product_name":"MI350","logical_node_type_id":1}],
  "kernel_symbols":[{"kernel_id":8,"kernel_name":"_Z1kv.kd","formatted_kernel_name":"k()"}],
  "buffer_records":{"kernel_dispatch":[{"thread_id":50,"correlation_id":{"internal":3},"start_timestamp":100,"end_timestamp":150,
    "dispatch_info":{"agent_id":{"handle":12},"queue_id":{"handle":1},"kernel_id":8},"stream_id":{"handle":4}},
    {"start_timestamp":100,"end_timestamp":50,"dispatch_info":{"kernel_id":9}}],
  "memory_copy":[{"start_timestamp":200,"end_timestamp":250,"bytes":64,"dst_agent_id":{"handle":11},"src_agent_id":{"handle":12}}]}}]})json";

TEST_F(RocprofTest, json_names_its_kernels_and_devices) {
  const auto model = read(kJson);
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(model->format, "rocprof");
  ASSERT_EQ(model->activities.size(), 2u);
  EXPECT_EQ(model->names[model->activities[0].name], "k()");
  EXPECT_EQ(model->devices, (std::vector<Device>{{1, "MI350"}}));
  EXPECT_EQ(std::tuple(model->activities[1].device, model->activities[1].bytes), std::tuple(1, 64));
  EXPECT_EQ(gap_of(*model, GapKind::unreadable)->count, 1);
  expect_named_outcomes(kJson);
}

TEST_F(RocprofTest, json_calls_have_the_names_that_the_file_numbers) {
  const std::string records = R"json("buffer_records":{"hip_api":[
    {"kind":1,"operation":1,"thread_id":50,"correlation_id":{"internal":3},"start_timestamp":90,"end_timestamp":95},
    {"kind":1,"operation":2,"thread_id":50,"correlation_id":{"internal":4},"start_timestamp":96,"end_timestamp":180},
    {"kind":1,"operation":9,"thread_id":50,"start_timestamp":190,"end_timestamp":195},{"kind":-1,"operation":0,"start_timestamp":196,"end_timestamp":199}],
   "kernel_dispatch":[{"thread_id":50,"correlation_id":{"internal":3},"start_timestamp":100,"end_timestamp":150,"dispatch_info":{"kernel_id":8}}],
   "memory_copy":[{"kind":2,"operation":1,"start_timestamp":200,"end_timestamp":250}]})json";
  const std::string strings = R"json("strings":{"callback_records":[{"kind":"OTHER","operations":["x"]}],"buffer_records":[{"kind":"NONE","operations":[]},
   {"kind":"HIP_RUNTIME_API","operations":["hipInit","hipLaunchKernel","hipDeviceSynchronize"]},{"kind":"MEMORY_COPY","operations":["NONE","MEMORY_COPY_HOST_TO_DEVICE"]}]})json";
  for (const bool names_first : {true, false}) {
    const auto model = read(R"json({"rocprofiler-sdk-tool":[{"metadata":{"pid":50},)json" + (names_first ? strings + "," + records : records + "," + strings) + "}]}");
    ASSERT_TRUE(model.ok()) << model.error().what;
    ASSERT_EQ(model->calls.size(), 4u);
    EXPECT_EQ(model->names[model->calls[0].name], "hipLaunchKernel");
    EXPECT_EQ(model->calls[0].kind, CallKind::launch);
    EXPECT_EQ(model->calls[1].kind, CallKind::sync);
    EXPECT_EQ(model->names[model->calls[2].name], "HIP call");
    EXPECT_EQ(model->names[model->calls[3].name], "HIP call");
    EXPECT_EQ(model->names[model->activities[1].name], "MEMORY_COPY_HOST_TO_DEVICE");
  }
}

TEST(rocprof_samples, each_has_its_outcome) {
  KL_SKIP_WITHOUT_SAMPLES();
  const auto of = [](const char* file) { return read_trace(samples() / "rocprof" / file); };
  EXPECT_EQ(of("rocprofiler-sdk-2024_kernel_trace.csv")->activities.size(), 7u);
  EXPECT_EQ(of("rocprofiler-sdk-2024_hip_runtime_trace.csv")->calls.size(), 8u);
  EXPECT_EQ(of("rocprofiler-sdk-2024_memory_copy_trace.csv")->activities.size(), 2u);
  EXPECT_EQ(of("rocprofiler-sdk-2024_counter_collection.csv").error().status, Status::insufficient_trace_data);
  const auto json = of("tracelens_908_results.json.gz");
  ASSERT_TRUE(json.ok()) << json.error().what;
  EXPECT_EQ(json->activities.size(), 43915u);
  EXPECT_EQ(json->devices.size(), 1u);
}

}  // namespace
}  // namespace kl::trace
