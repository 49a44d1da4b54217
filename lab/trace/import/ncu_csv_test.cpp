#include <lab/trace/import/ncu_csv.hpp>
#include <lab/trace/import/test_import.hpp>
#include <lab/trace/summary.hpp>

namespace kl::trace {
namespace {

using testing::HasSubstr;

constexpr std::string_view kLong =
    "==PROF== Connected to process 4242 (/usr/bin/python3)\n"
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\","
    "\"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule Name\",\"Rule Type\",\"Rule Description\"\n"
    "\"0\",\"4242\",\"python3\",\"127.0.0.1\",\"k<int, 1>(int *)\",\"1\",\"7\",\"(256, 1, 1)\",\"(8, 1, 1)\",\"0\",\"9.0\",\"Speed\",\"Duration\",\"ns\",\"21,058,944\",\n"
    "\"0\",\"4242\",\"python3\",\"127.0.0.1\",\"k<int, 1>(int *)\",\"1\",\"7\",\"(256, 1, 1)\",\"(8, 1, 1)\",\"0\",\"9.0\",\"Speed\",\"Memory Throughput\",\"%\",\"61.84\",\n"
    "\"0\",\"4242\",\"python3\",\"127.0.0.1\",\"k<int, 1>(int *)\",\"1\",\"7\",\"(256, 1, 1)\",\"(8, 1, 1)\",\"0\",\"9.0\",\"Memory\",\"Memory Throughput\",\"byte/s\",\"1,000.5\",\n"
    "\"0\",\"4242\",\"python3\",\"127.0.0.1\",\"k<int, 1>(int *)\",\"1\",\"7\",\"(256, 1, 1)\",\"(8, 1, 1)\",\"0\",\"9.0\",\"Speed\",\"\",\"\",\"\",\"Bottleneck\",\"OPT\",\"Advice, at length\"\n"
    "\"1\",\"4242\",\"python3\",\"127.0.0.1\",\"b\",\"1\",\"7\",\"(256, 1, 1)\",\"(8, 1, 1)\",\"0\",\"9.0\",\"Speed\",\"Duration\",\"us\",\"1.5\",\n"
    "==PROF== Disconnected from process 4242\n";

constexpr std::string_view kWide =
    "program output, before the table\n"
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"launch__cfg\","
    "\"dram__bytes.sum\",\"gpu__time_duration.sum\"\n"
    "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"byte\",\"ns\"\n"
    "\"0\",\"1\",\"p\",\"h\",\"void <unnamed>::a<4, 1>(int)\",\"1\",\"7\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\"PreferNone\",\"1,048,576\",\"28,448\"\n"
    "\"1\",\"1\",\"p\",\"h\",\"b\",\"1\",\"7\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\"PreferNone\",\"n/a\",\"13,312\"\n"
    "==WARNING== Note: Running with unmodified GPU clocks.\n";

class NcuTest : public ImportTest {
 protected:
  Result<NcuReport> report(std::string_view content) const {
    EXPECT_TRUE(write_file_atomic(folder_.path() / "n.csv", content).ok());
    return read_ncu_report(folder_.path() / "n.csv");
  }
};

TEST_F(NcuTest, the_long_page_has_a_metric_a_row) {
  const auto found = report(kLong);
  ASSERT_TRUE(found.ok()) << found.error().what;
  ASSERT_EQ(found->kernels.size(), 2u);
  const NcuKernel& kernel = found->kernels[0];
  EXPECT_EQ(kernel.name, "k<int, 1>(int *)");
  EXPECT_EQ(kernel.compute_capability, "9.0");
  ASSERT_EQ(kernel.metrics.size(), 3u) << "advice is no metric";
  EXPECT_EQ(kernel.duration_ns(), 21'058'944);
  EXPECT_EQ(found->kernels[1].duration_ns(), 1'500);
  EXPECT_EQ(kernel.metrics[1].unit, "%");
  EXPECT_EQ(kernel.metrics[2].value, 1000.5) << "of two metrics with one name, each with its unit";
  EXPECT_TRUE(found->gaps.empty());
}

TEST_F(NcuTest, the_wide_page_has_a_metric_a_column_and_units_below_their_names) {
  const auto found = report(kWide);
  ASSERT_TRUE(found.ok()) << found.error().what;
  ASSERT_EQ(found->kernels.size(), 2u);
  EXPECT_EQ(found->kernels[0].find("dram__bytes.sum")->value, 1048576);
  EXPECT_EQ(found->kernels[0].find("dram__bytes.sum")->unit, "byte");
  EXPECT_EQ(found->kernels[1].find("dram__bytes.sum"), nullptr) << "n/a is no value, not 0";
  EXPECT_EQ(found->kernels[0].find("launch__cfg"), nullptr) << "text";
}

TEST_F(NcuTest, a_trace_of_it_has_sums_and_no_timeline) {
  const auto model = read(kWide);
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(model->format, "ncu");
  const Summary summary = summarise(*model, true);
  EXPECT_TRUE(summary.devices.empty());
  EXPECT_EQ(summary.families.at(0).kernel_sum_ns, 28'448 + 13'312);
  EXPECT_EQ(summary.kernels.at(0).total_ns, 28'448);
  EXPECT_EQ(summary.bottleneck.label, "insufficient-trace-data");
  EXPECT_THAT(summary.bottleneck.reason, HasSubstr("one by one"));
}

TEST_F(NcuTest, what_holds_nothing_is_an_error) {
  const std::string header(kWide.substr(0, kWide.find("\"0\",")));
  EXPECT_EQ(report(header).error().status, Status::insufficient_trace_data);
  EXPECT_THAT(report("==PROF== Connected\n==WARNING== No kernels were profiled.\n").error().what, HasSubstr("No kernels were profiled"));
  const auto all_na = report(header + "\"0\",\"1\",\"p\",\"h\",\"a\",\"1\",\"7\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\"n/a\",\"n/a\",\"n/a\"\n");
  ASSERT_FALSE(all_na.ok());
  EXPECT_EQ(all_na.error().status, Status::insufficient_metrics);
  const auto refused = report("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n");
  EXPECT_EQ(refused.error().status, Status::no_permission);
  EXPECT_THAT(refused.error().remedy, HasSubstr("NVreg_RestrictProfilingToAdminUsers"));
  const auto timeless = read(header + "\"0\",\"1\",\"p\",\"h\",\"a\",\"1\",\"7\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\"n/a\",\"5\",\"n/a\"\n");
  EXPECT_THAT(timeless.error().what, HasSubstr("has a duration"));
}

TEST_F(NcuTest, ragged_and_numberless_rows_are_counted) {
  const auto found = report(std::string(kWide) + "\"2\",\"1\",\"p\"\n\"x\",\"1\",\"p\",\"h\"\n");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->gaps.at(0).count, 2);
}

TEST_F(NcuTest, cut_or_damaged_anywhere_there_is_a_named_outcome) {
  expect_named_outcomes(std::string(kLong));
  expect_named_outcomes(std::string(kWide));
}

TEST(ncu_samples, each_is_read_whole) {
  KL_SKIP_WITHOUT_SAMPLES();
  struct Sample {
    const char* file;
    size_t kernels;
  };
  for (const Sample& sample : {Sample{"h200_torch_wide.csv", 8}, Sample{"nsightful_copy_blocked_long_T4.csv", 1}, Sample{"synthetic_wide_shape.csv", 2}}) {
    const auto found = read_ncu_report(samples() / "ncu" / sample.file);
    ASSERT_TRUE(found.ok()) << found.error().what;
    EXPECT_EQ(found->kernels.size(), sample.kernels) << sample.file;
    EXPECT_TRUE(found->gaps.empty()) << sample.file << ": " << found->gaps[0].what;
    for (const NcuKernel& kernel : found->kernels) EXPECT_TRUE(kernel.duration_ns()) << sample.file;
    EXPECT_TRUE(read_trace(samples() / "ncu" / sample.file).ok());
  }
}

}  // namespace
}  // namespace kl::trace
