#include <lab/bench/case_costs.hpp>

#include <lab/stats/moments.hpp>
#include <lab/stats/quantile.hpp>

#include <cmath>

namespace kl {
namespace {

DLTensor shape_view(TensorData& tensor) {
  DLTensor view{};
  view.device = {kDLCPU, 0};
  view.dtype = tensor.dtype;
  view.ndim = static_cast<int32_t>(tensor.shape.size());
  view.shape = tensor.shape.data();
  return view;
}

// The same way the step's figures are made, so that the lines and their sum tell one story.
double typical_ns(const BenchSamples& samples, ArmSeries ProcessSeries::*arm, size_t slot) {
  std::vector<double> logs;
  for (const ProcessSeries& p : samples.processes) {
    const auto& times = (p.*arm).worker_ns;
    if (p.control || slot >= times.size() || times[slot].empty()) continue;
    const std::vector<double> ns(times[slot].begin(), times[slot].end());
    logs.push_back(std::log(stats::median(ns)));
  }
  return std::exp(stats::mean(logs));
}

void compare_with_ceiling(BenchCase& line, const std::vector<Ceiling>& ceilings) {
  const double bytes = line.bytes_read + line.bytes_written;
  line.candidate_gb_per_s = bytes / line.candidate_cold_ns;
  line.baseline_gb_per_s = bytes / line.baseline_cold_ns;
  if (bytes <= 0) return;
  line.ceiling_gb_per_s = ceiling_gb_per_s(ceilings, bytes, line.bytes_read / bytes);
  if (!line.ceiling_gb_per_s) return;
  line.candidate_percent_of_ceiling = 100 * line.candidate_gb_per_s / *line.ceiling_gb_per_s;
  line.baseline_percent_of_ceiling = 100 * line.baseline_gb_per_s / *line.ceiling_gb_per_s;
}

}  // namespace

Result<oracle::Cost> cost_of(const OracleLibrary& oracle, const OperationData& operation) {
  OperationData shapes = operation;
  std::vector<DLTensor> inputs, outputs;
  for (TensorData& tensor : shapes.inputs) inputs.push_back(shape_view(tensor));
  for (TensorData& tensor : shapes.outputs) outputs.push_back(shape_view(tensor));
  const kl_problem problem{operation.spec->index,
                           static_cast<int32_t>(inputs.size()),
                           static_cast<int32_t>(outputs.size()),
                           static_cast<int32_t>(operation.scalars.size()),
                           inputs.data(),
                           outputs.data(),
                           operation.scalars.data(),
                           0,
                           0};
  oracle::Cost cost{};
  if (const int code = oracle.table().cost(&problem, &cost); code != 0)
    return make_error(Status::unsupported_target,
                      "the oracle's cost model refuses " + operation.spec->name + " with code " +
                          std::to_string(code),
                      "make spec.toml and oracle.cpp of the target agree");
  return cost;
}

Result<std::vector<BenchCase>> case_lines(const OracleLibrary& oracle,
                                          const std::vector<SeamCase>& cases,
                                          const BenchSamples& samples,
                                          const std::vector<Ceiling>& ceilings) {
  std::vector<BenchCase> lines;
  for (const SeamCase& seam_case : cases)
    for (const OperationData& operation : seam_case.pool.operations) {
      const size_t slot = lines.size();
      KL_TRY(const oracle::Cost cost, cost_of(oracle, operation));
      BenchCase& line = lines.emplace_back();
      line.operation = operation.spec->name;
      line.axes = seam_case.shape.axes;
      line.calls_per_step = seam_case.shape.calls_of(line.operation);
      line.bytes_read = cost.bytes_read;
      line.bytes_written = cost.bytes_written;
      line.flops = cost.flops;
      line.candidate_cold_ns = typical_ns(samples, &ProcessSeries::candidate_cold, slot);
      line.candidate_warm_ns = typical_ns(samples, &ProcessSeries::candidate_warm, slot);
      line.baseline_cold_ns = typical_ns(samples, &ProcessSeries::baseline_cold, slot);
      line.baseline_warm_ns = typical_ns(samples, &ProcessSeries::baseline_warm, slot);
      compare_with_ceiling(line, ceilings);
    }
  return lines;
}

}  // namespace kl
