#include <lab/trace/import/test_import.hpp>
#include <lab/trace/summary.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <cmath>

namespace kl::trace {
namespace {

using testing::HasSubstr;

std::string event(std::string_view cat, std::string_view name, std::string_view ts, std::string_view dur, std::string_view args = "",
                  std::string_view pid = "10", std::string_view tid = "11") {
  return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})", cat, name,
                     pid, tid, ts, dur, args);
}
std::string trace(const std::vector<std::string>& events, std::string_view head = "") {
  return fmt::format("{{{}\"traceEvents\": [\n{}\n]}}", head, fmt::join(events, ",\n"));
}

std::string packed(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A step with an operator, its launch and its kernel; a copy; what must not count.
std::string step() {
  return trace({event("user_annotation", "ProfilerStep#7", "1000", "100"), event("cpu_op", "aten::mm", "1001", "5", R"("External id": 3)"),
                event("cuda_runtime", "cudaLaunchKernel", "1002.5", "2.25", R"("External id": 3, "cbid": 211, "correlation": 9)"),
                event("kernel", "gemm\\u003cint\\u003e", "1010.001", "20.002",
                      R"("External id": 3, "device": 1, "stream": 7, "correlation": 9, "grid": [1, 1, 1])", "1", "7"),
                event("gpu_memcpy", "Memcpy DtoH", "1040", "1", R"("device": 1, "stream": 8, "correlation": 10, "bytes": 64)", "1", "8"),
                event("gpu_user_annotation", "ProfilerStep#7", "1005", "80", "", "1", "7"),
                event("python_function", "main.py(1): f", "1000", "90"), event("overhead", "Buffer Flush", "1090", "3"),
                R"({"ph": "s", "id": 9, "pid": 10, "tid": 11, "ts": 1002, "cat": "ac2g", "name": "ac2g"})",
                R"({"ph": "M", "name": "process_name", "pid": 10, "args": {"name": "python"}})"},
               R"("schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A"}, {"id": 1, "name": "B \"x\""}], "cupti_version": 26,
                  "baseTimeNanoseconds": 5, "displayTimeUnit": "ms", "unknown": {"traceEvents": [1]}, )");
}

class KinetoTest : public ImportTest {};

TEST_F(KinetoTest, an_event_becomes_what_it_is) {
  for (const std::string& content : {step(), packed(step())}) {
    const auto model = read(content);
    ASSERT_TRUE(model.ok()) << model.error().what;
    EXPECT_EQ(model->format, "kineto");
    EXPECT_EQ(model->source_version, "1");
    EXPECT_EQ(model->metadata.at("cupti_version"), "26");
    ASSERT_EQ(model->devices.size(), 1u) << "devices that did nothing are not this process's";
    EXPECT_EQ(model->devices[0], (Device{1, "B \"x\""}));
    ASSERT_EQ(model->activities.size(), 2u);
    const DeviceActivity& kernel = model->activities[0];
    EXPECT_EQ(model->names[kernel.name], "gemm<int>");
    EXPECT_EQ(kernel.span, (Span{1'010'001, 1'030'003}));
    EXPECT_EQ(model->names[kernel.op], "aten::mm");
    EXPECT_EQ(std::tuple(kernel.device, kernel.stream, kernel.correlation), std::tuple(1, 7, 9));
    EXPECT_EQ(std::tuple(model->activities[1].kind, model->activities[1].bytes), std::tuple(ActivityKind::copy, 64));
    EXPECT_EQ(model->activities[1].op, kNoName);
    ASSERT_EQ(model->calls.size(), 1u);
    EXPECT_EQ(model->calls[0].kind, CallKind::launch);
    EXPECT_EQ(model->calls[0].thread, thread_number(10, 11));
    EXPECT_EQ(kernel.process, model->calls[0].process);
    ASSERT_EQ(model->ranges.size(), 1u);
    EXPECT_EQ(model->ranges[0].kind, RangeKind::step);
    EXPECT_EQ(model->overheads.size(), 1u);
    EXPECT_TRUE(model->gaps.empty());
  }
}

TEST_F(KinetoTest, without_an_external_id_the_operator_is_the_innermost_around_the_call) {
  const auto model = read(trace({event("cpu_op", "aten::linear", "1000", "50"), event("cpu_op", "aten::mm", "1010", "10"),
                                 event("cpu_op", "aten::sum", "1010", "10", "", "10", "12"),  // of another thread
                                 event("cuda_runtime", "cudaLaunchKernel", "1012", "2", R"("correlation": 1)"),
                                 event("cuda_runtime", "cudaLaunchKernel", "1020", "2", R"("correlation": 2)"),
                                 event("cuda_runtime", "cudaLaunchKernel", "1060", "2", R"("correlation": 3)"),
                                 event("kernel", "a", "1100", "1", R"("device": 0, "stream": 7, "correlation": 1)"),
                                 event("kernel", "b", "1110", "1", R"("device": 0, "stream": 7, "correlation": 2)"),
                                 event("kernel", "c", "1120", "1", R"("device": 0, "stream": 7, "correlation": 3)"),
                                 event("kernel", "d", "1130", "1", R"("device": 0, "stream": 7, "correlation": 99)"),
                                 event("kernel", "e", "1140", "1", R"("device": 0, "stream": 7)")}));
  ASSERT_TRUE(model.ok()) << model.error().what;
  std::vector<std::string> ops;
  for (const DeviceActivity& item : model->activities) ops.push_back(item.op == kNoName ? "" : model->names[item.op]);
  EXPECT_THAT(ops, testing::ElementsAre("aten::mm", "aten::linear", "", "", ""));
}

TEST_F(KinetoTest, annotations_on_the_device_are_no_busy_time) {
  const Summary summary = summarise(*read(step()));
  EXPECT_EQ(summary.steps, 1);
  EXPECT_EQ(summary.window_ns, 100'000);
  EXPECT_EQ(summary.devices[0].busy_union_ns, 20'002 + 1'000);
}

TEST_F(KinetoTest, old_spellings_are_known) {
  const auto model = read(trace({event("Kernel", "k", "1", "2", R"("device": 0, "stream": 7, "correlation": 5, "external id": 4)", "0", "\"stream 7\""),
                                 event("Memset", "Memset (Device)", "5", "2", "", "\"0\"", "\"stream 20\""),
                                 event("Runtime", "cudaLaunchKernel", "0", "1", R"("correlation": 5)"),
                                 event("Operator", "aten::add", "0", "1", R"("External id": 4)"),
                                 event("Operator", "ProfilerStep#2", "0", "20", R"("External id": 1)")}));
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(model->names[model->activities[0].op], "aten::add");
  EXPECT_EQ(model->activities[1].kind, ActivityKind::set);
  EXPECT_EQ(model->activities[1].stream, 20);
  EXPECT_EQ(model->calls[0].kind, CallKind::launch);
  EXPECT_EQ(model->steps().size(), 1u);
}

TEST_F(KinetoTest, times_are_decimal_text_whatever_their_spelling) {
  const auto model = read(trace({event("kernel", "a", "1661203462598738.123", "0.001"), event("kernel", "b", "1.5e3", "1E1"),
                                 event("kernel", "c", "\"17\"", "\"1.5\""), event("kernel", "d", "-5", "1")}));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->activities[0].span, (Span{1661203462598738123, 1661203462598738124}));
  EXPECT_EQ(model->activities[1].span, (Span{1'500'000, 1'510'000}));
  EXPECT_EQ(model->activities[2].span, (Span{17'000, 18'500}));
  EXPECT_EQ(model->activities[3].span, (Span{-5'000, -4'000}));
}

TEST_F(KinetoTest, what_makes_no_sense_is_left_out_and_counted) {
  const auto model = read(trace({event("kernel", "a", "1", "2"), event("kernel", "negative", "5", "-1"), event("kernel", "huge", "1e18", "1"),
                                 event("kernel", "longest", "1", "1e15"), event("kernel", "text", "soon", "1"), event("kernel", "nan", "NaN", "1"),
                                 R"({"ph": "X", "cat": "kernel", "name": "no duration", "ts": 5})", "17", R"({"ph": "X" "cat"})"}));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->activities.size(), 1u);
  ASSERT_NE(gap_of(*model, GapKind::unreadable), nullptr);
  EXPECT_EQ(gap_of(*model, GapKind::unreadable)->count, 8);
  EXPECT_THAT(gap_of(*model, GapKind::unreadable)->what, HasSubstr("8 of 9"));
}

TEST_F(KinetoTest, a_bare_list_and_members_in_any_order_are_read) {
  const auto bare = read(" [" + event("kernel", "a", "1", "2") + "]");
  ASSERT_TRUE(bare.ok()) << bare.error().what;
  EXPECT_EQ(bare->activities.size(), 1u);
  const auto sorted = read(R"([{"args": {"device": 3, "External id": 8}, "cat": "kernel", "dur": 2, "name": "a", "ph": "X", "pid": 0, "tid": 0, "ts": 1},
                               {"args": {"External id": 8}, "cat": "cpu_op", "dur": 2, "name": "aten::a", "ph": "X", "pid": 0, "tid": 0, "ts": 1}])");
  ASSERT_TRUE(sorted.ok());
  EXPECT_EQ(sorted->activities[0].device, 3);
  EXPECT_EQ(sorted->names[sorted->activities[0].op], "aten::a");
}

TEST_F(KinetoTest, a_wait_on_the_devices_track_counts_only_without_its_call) {
  const std::string wait = event("cuda_sync", "Stream Sync", "5", "2", R"("correlation": 4)", "0", "7");
  const std::string call = event("cuda_runtime", "cudaStreamSynchronize", "5", "3", R"("correlation": 4)");
  EXPECT_EQ(summarise(*read(trace({wait, call, event("kernel", "k", "1", "9")}))).host.sync_sum_ns, 3'000);
  EXPECT_EQ(summarise(*read(trace({wait, event("kernel", "k", "1", "9")}))).host.sync_sum_ns, 2'000);
}

TEST_F(KinetoTest, correlations_join_within_the_process_of_the_call) {
  const auto model = read(trace({event("cuda_runtime", "cudaLaunchKernel", "0", "1", R"("correlation": 1)", "10", "10"),
                                 event("cuda_runtime", "cudaLaunchKernel", "0", "1", R"("correlation": 2)", "20", "20"),
                                 event("cuda_runtime", "cudaLaunchKernel", "0", "1", R"("correlation": 2)", "30", "30"),
                                 event("kernel", "k", "2", "1", R"("correlation": 2)")}));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->activities[0].process, thread_number(20, 0)) << "of two calls with one id, the first";
}

TEST_F(KinetoTest, a_broken_tail_keeps_what_came_before) {
  const std::string whole = step();
  const auto model = read(whole.substr(0, whole.find("gpu_user_annotation")));
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(model->activities.size(), 2u);
  ASSERT_NE(gap_of(*model, GapKind::unreadable), nullptr);
  EXPECT_THAT(gap_of(*model, GapKind::unreadable)->what, HasSubstr("the file ends inside a value at byte"));
  const std::string zipped = packed(whole);
  const auto short_one = read(zipped.substr(0, zipped.size() - 12));
  ASSERT_TRUE(short_one.ok()) << short_one.error().what;
  EXPECT_NE(gap_of(*short_one, GapKind::unreadable), nullptr);
}

TEST_F(KinetoTest, what_holds_nothing_is_refused_by_name) {
  const auto error = [&](std::string_view content) { return read(content).error(); };
  EXPECT_EQ(error(trace({})).status, Status::insufficient_trace_data);
  EXPECT_THAT(error(trace({})).what, HasSubstr("holds no kernels, no calls and no ranges"));
  EXPECT_EQ(error("{\"a\": 1}").status, Status::usage);
  EXPECT_THAT(error("{\"a\": 1}").what, HasSubstr("no traceEvents"));
  EXPECT_EQ(error("{\"a\": ").status, Status::insufficient_trace_data);
  EXPECT_EQ(error(packed("")).status, Status::insufficient_trace_data);
  EXPECT_EQ(error("\x1f\x8b\x08").status, Status::insufficient_trace_data);
  EXPECT_THAT(error(packed(std::string("SQLite format 3\0 and more", 25))).remedy, HasSubstr("gunzip"));
  const auto host_only = read(trace({event("user_annotation", "ProfilerStep#1", "1", "2")}));
  ASSERT_TRUE(host_only.ok());
  EXPECT_NE(gap_of(*host_only, GapKind::no_device_work), nullptr);
}

TEST_F(KinetoTest, names_that_are_no_utf8_are_kept_and_can_be_written) {
  const auto model = read(trace({event("kernel", "k\xff\xfe", "1", "2")}));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->names[model->activities[0].name], "k\xff\xfe");
}

TEST_F(KinetoTest, cut_or_damaged_anywhere_there_is_a_named_outcome) {
  expect_named_outcomes(step());
  expect_named_outcomes(packed(step()));
}

struct Sample {
  const char* file;
  size_t kernels, copies, calls, steps, with_op;
};

TEST(kineto_samples, each_is_read_whole) {
  KL_SKIP_WITHOUT_SAMPLES();
  for (const Sample& sample : {
           Sample{"HTA_amd_trace__mi250_minitoy_train_ROCm6_2_kineto", 14, 2, 21, 2, 16},
           Sample{"HTA_critical_path__cuda_event_sync__event_sync_trace", 4, 1, 12, 1, 4},
           Sample{"HTA_nccl_parser_config__nccl_data", 2700, 960, 8740, 3, 3774},
           Sample{"HTA_rank_non_gpu__rank_non_gpu", 0, 0, 0, 1, 0},
           Sample{"HTA_triton_example__triton_example", 1, 0, 2, 1, 1},
           Sample{"TL_b200__eager_trace", 768, 161, 1372, 0, 927},
           Sample{"TL_h100_gaunernst", 60, 1, 132, 1, 61},
           Sample{"TL_inference__vllm_decode_full__graph_execution", 425, 9, 20, 0, 13},
           Sample{"TL_torch_compile_triton__trace", 12, 0, 59, 0, 12},
       }) {
    const auto model = read_trace(samples() / "kineto" / fmt::format("{}.json.gz", sample.file));
    ASSERT_TRUE(model.ok()) << model.error().what;
    size_t kernels = 0, copies = 0, with_op = 0;
    for (const DeviceActivity& item : model->activities) {
      kernels += item.kind == ActivityKind::kernel;
      copies += item.kind == ActivityKind::copy;
      with_op += item.op != kNoName;
    }
    EXPECT_EQ(kernels, sample.kernels) << sample.file;
    EXPECT_EQ(copies, sample.copies) << sample.file;
    EXPECT_EQ(model->calls.size(), sample.calls) << sample.file;
    EXPECT_EQ(model->steps().size(), sample.steps) << sample.file;
    EXPECT_EQ(with_op, sample.with_op) << sample.file;
    EXPECT_EQ(gap_of(*model, GapKind::unreadable), nullptr) << sample.file;
    EXPECT_EQ(gap_of(*model, GapKind::no_device_work) != nullptr, sample.kernels == 0) << sample.file;
  }
}

// Comma-separated values whose text may be quoted.
std::vector<std::vector<std::string>> rows_of(const fs::path& path) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  const std::string text = *read_file(path);
  for (const char c : text)
    if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) rows.back().emplace_back();
    else if (c == '\n') rows.push_back({""});
    else rows.back().back() += c;
  rows.pop_back();
  return rows;
}

// TraceLens keeps microseconds since boot in doubles: near 1.4e12 they are 2^-12 µs apart, so each of its sums of
// begins and ends may be off by that much, and ours, in whole nanoseconds, by nothing.
TEST(kineto_samples, busy_and_idle_time_are_tracelens_s_but_for_its_rounding) {
  KL_SKIP_WITHOUT_SAMPLES();
  std::map<std::string, double> expected_ns;
  for (const auto& row : rows_of(samples() / "kineto/TL_h100_gaunernst__expected_gpu_timeline.csv"))
    if (row[0] != "type") expected_ns[row[0]] = std::stod(row[1]) * 1e6;
  const Summary summary = summarise(*read_trace(samples() / "kineto/TL_h100_gaunernst.json.gz"));
  const DeviceSummary& device = summary.devices.at(0);
  const double rounding_ns = 1e3 / 4096;  // of one difference; busy time is the sum of 61
  EXPECT_EQ(device.kernel_union_ns, 307'197);
  EXPECT_EQ(device.exposed_copy_ns, 2'240);
  EXPECT_EQ(device.busy_union_ns, 309'437);
  EXPECT_EQ(device.span_ns, 3'907'825);
  EXPECT_NEAR(static_cast<double>(device.kernel_union_ns), expected_ns.at("computation_time"), 60 * rounding_ns);
  EXPECT_NEAR(static_cast<double>(device.exposed_copy_ns), expected_ns.at("exposed_memcpy_time"), rounding_ns);
  EXPECT_NEAR(static_cast<double>(device.busy_union_ns), expected_ns.at("busy_time"), 61 * rounding_ns);
  EXPECT_NEAR(static_cast<double>(device.span_ns), expected_ns.at("total_time"), rounding_ns);
  EXPECT_NEAR(static_cast<double>(device.span_ns - device.busy_union_ns), expected_ns.at("idle_time"), 62 * rounding_ns);
}

// By kernel and operator; durations are text of its own in the trace, so here nothing is rounded.
TEST(kineto_samples, kernels_by_operator_are_tracelens_s) {
  KL_SKIP_WITHOUT_SAMPLES();
  const auto model = read_trace(samples() / "kineto/TL_h100_gaunernst.json.gz");
  ASSERT_TRUE(model.ok());
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> ours, expected;
  for (const DeviceActivity& item : model->activities) {
    if (item.kind != ActivityKind::kernel) continue;
    ASSERT_NE(item.op, kNoName);
    auto& [count, ns] = ours[{model->names[item.op], model->names[item.name]}];
    ++count;
    ns += item.span.length();
  }
  for (const auto& row : rows_of(samples() / "kineto/TL_h100_gaunernst__expected_kernel_summary.csv"))
    if (row[1] != "Parent cpu_op") expected[{row[1], row[2]}] = {std::stoll(row[5]), std::llround(std::stod(row[4]) * 1000)};
  EXPECT_EQ(expected.size(), 12u);
  EXPECT_EQ(ours, expected);
}

}  // namespace
}  // namespace kl::trace
