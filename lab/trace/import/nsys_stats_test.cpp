#include <lab/trace/import/test_import.hpp>

#include <fmt/format.h>

namespace kl::trace {
namespace {

constexpr std::string_view kPreamble = "Generating SQLite file x.sqlite from x.nsys-rep\n"
                                       "Processing [x.sqlite] with [/opt/nsys/reports/cuda_gpu_kern_sum.py]... \n\n"
                                       " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n";

class NsysStatsTest : public ImportTest {
 protected:
  static std::vector<std::string> totals(const TraceModel& model) {
    std::vector<std::string> found;
    for (const WorkTotal& t : model.totals) found.push_back(fmt::format("{} {} {} {}", to_string(t.kind), model.names[t.name], t.count, t.total_ns));
    return found;
  }
};

TEST_F(NsysStatsTest, several_reports_follow_each_other) {
  const auto model = read(std::string(kPreamble) +
                          "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
                          "75.0,3000,3,1000.0,1000.0,900,1100,10.0,\"void k<int, 2>(int)\"\n25.0,1000,1,1000.0,1000.0,1000,1000,0.0,b\n\n"
                          "Processing [x.sqlite] with [cuda_gpu_mem_time_sum.py]...\n"
                          "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n"
                          "100.0,50,2,25.0,25.0,20,30,5.0,[CUDA memcpy HtoD]\n100.0,5,1,5.0,5,5,5,0,[CUDA memset]\n\n"
                          "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n9,9,9,9,9,9,9,9,cudaLaunchKernel\n\n"
                          "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name\n"
                          "75.0,3000,3,1000.0,1000.0,900,1100,10.0,1 1 1,1 1 1,\"void k<int, 2>(int)\"\n");
  ASSERT_TRUE(model.ok()) << model.error().what;
  EXPECT_EQ(model->format, "nsys-stats");
  EXPECT_THAT(totals(*model), testing::ElementsAre("kernel void k<int, 2>(int) 3 3000", "kernel b 1 1000", "copy [CUDA memcpy HtoD] 2 50",
                                                   "set [CUDA memset] 1 5"));
  EXPECT_NE(gap_of(*model, GapKind::no_timeline), nullptr);
  EXPECT_EQ(gap_of(*model, GapKind::unreadable), nullptr);
}

TEST_F(NsysStatsTest, old_names_units_and_decimal_commas_are_read) {
  const auto old = read("Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n100.0,\"1,234,567\",2,1.0,1,1,k\n");
  ASSERT_TRUE(old.ok()) << old.error().what;
  EXPECT_THAT(totals(*old), testing::ElementsAre("kernel k 2 1234567"));
  const auto micro = read("Time (%);Total Time (µs);Instances;Name\n\"45,3\";\"1.234,567\";2;k\n54,7;28,448;\"1.000\";l\n");
  ASSERT_TRUE(micro.ok()) << micro.error().what;
  EXPECT_THAT(totals(*micro), testing::ElementsAre("kernel k 2 1234567", "kernel l 1000 28448"));
}

TEST_F(NsysStatsTest, a_trace_report_has_a_timeline) {
  const auto model = read("Start (ns),Duration (ns),CorrId,GrdX,Device,Ctx,GreenCtx,Strm,Name\n"
                          "100,50,7,1,NVIDIA A100 (1),1,,13,k\n160,10,8,,NVIDIA A100 (1),1,,13,[CUDA memcpy HtoD]\n200,-1,9,,NVIDIA A100 (1),1,,13,bad\n\n"
                          "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n80,9,cudaLaunchKernel,0,7,50,51,20,main\n");
  ASSERT_TRUE(model.ok()) << model.error().what;
  ASSERT_EQ(model->activities.size(), 2u);
  EXPECT_EQ(model->devices, (std::vector<Device>{{1, "NVIDIA A100"}}));
  EXPECT_EQ(model->activities[1].kind, ActivityKind::copy);
  EXPECT_EQ(std::tuple(model->calls.at(0).correlation, model->calls[0].process), std::tuple(7, model->activities[0].process));
  EXPECT_EQ(gap_of(*model, GapKind::unreadable)->count, 1);
}

TEST_F(NsysStatsTest, a_missing_report_and_an_empty_one_are_errors) {
  const auto calls_only = read("Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n9,9,9,9,cudaLaunchKernel\n");
  ASSERT_FALSE(calls_only.ok());
  EXPECT_EQ(calls_only.error().status, Status::missing_profiler_summary);
  EXPECT_THAT(calls_only.error().what, testing::HasSubstr("only API calls"));
  const auto skipped = read("Processing [x.sqlite] with [cuda_gpu_kern_sum.py]...\nSKIPPED: x.sqlite does not contain CUDA kernel data.\n");
  ASSERT_FALSE(skipped.ok());
  EXPECT_EQ(skipped.error().status, Status::missing_profiler_summary);
  EXPECT_THAT(skipped.error().what, testing::HasSubstr("does not contain CUDA kernel data"));
  EXPECT_EQ(read("Time (%),Total Time (ns),Instances,Name\n").error().status, Status::insufficient_trace_data);
}

TEST_F(NsysStatsTest, senseless_and_ragged_rows_are_counted) {
  const auto model = read("Time (%),Total Time (ns),Instances,Name\n1,5,1,k\n1,-5,1,k\n1,1e30,1,k\n1,5,k\n1,5,1,k,9\n1,soon,1,\xff\n");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->totals.size(), 1u);
  EXPECT_EQ(gap_of(*model, GapKind::unreadable)->count, 5);
}

TEST_F(NsysStatsTest, cut_or_damaged_anywhere_there_is_a_named_outcome) {
  expect_named_outcomes(std::string(kPreamble) + "Time (%),Total Time (ns),Instances,Avg (ns),Name\n75.0,3000,3,1000.0,\"void k<int, 2>(int)\"\n25.0,1000,1,1000.0,b\n");
}

}  // namespace
}  // namespace kl::trace
