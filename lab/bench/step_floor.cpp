#include <lab/bench/step_floor.hpp>

#include <lab/bench/case_costs.hpp>
#include <lab/verify/case_plan.hpp>

#include <algorithm>

namespace kl {
namespace {

// Shapes only: the cost model reads no contents.
Result<OperationData> shapes_of(const OperationSpec& spec, const CaseGroup& group) {
  OperationData operation;
  operation.spec = &spec;
  operation.scalars = scalars_of(spec, group);
  for (const auto* tensors : {&spec.inputs, &spec.outputs})
    for (const TensorSpec& tensor : *tensors) {
      TensorData data;
      data.name = tensor.name;
      KL_TRY(data.dtype, dtype_of(tensor, group));
      KL_TRY(data.shape, shape_of(tensor, group));
      (tensors == &spec.inputs ? operation.inputs : operation.outputs).push_back(std::move(data));
    }
  return operation;
}

std::optional<double> call_ns(const oracle::Cost& cost, const Calibration& calibration) {
  const double bytes = cost.bytes_read + cost.bytes_written;
  std::optional<double> ns;
  if (bytes > 0)
    for (const bool cold : {true, false})
      if (const auto rate = ceiling_gb_per_s(calibration, bytes, cost.bytes_read / bytes, cold))
        ns = std::min(ns.value_or(bytes / *rate), bytes / *rate);
  if (calibration.device && calibration.device->fp32_tflop_per_s && cost.flops > 0)
    ns = std::max(ns.value_or(0), cost.flops / (*calibration.device->fp32_tflop_per_s * 1e3));
  return ns;
}

}  // namespace

Result<StepFloor> step_floor(const OracleLibrary& oracle, const Target& target, const std::vector<SeamShape>& shapes,
                             const Calibration* calibration) {
  StepFloor floor;
  if (shapes.empty()) floor.unknown = "the trainer gives no shapes";
  if (calibration == nullptr || calibration->ceilings.empty())
    floor.unknown = "no ceilings on file: kernel-lab calibrate measures them";
  double ns = 0;
  for (const SeamShape& shape : shapes) {
    const CaseGroup group{"trainer", shape.axes, shape.dtype, shape.scalars, shape.absent, {}};
    for (const OperationSpec& spec : target.operations) {
      const auto calls = static_cast<double>(shape.calls_of(spec.name));
      if (calls == 0) continue;
      KL_TRY(const OperationData operation, shapes_of(spec, group));
      KL_TRY(const oracle::Cost cost, cost_of(oracle, operation));
      floor.bytes += calls * (cost.bytes_read + cost.bytes_written);
      floor.flops += calls * cost.flops;
      if (!floor.unknown.empty()) continue;
      const auto one = call_ns(cost, *calibration);
      if (!one) floor.unknown = "the cost model gives neither bytes nor operations";
      ns += calls * one.value_or(0);
    }
  }
  if (floor.unknown.empty()) floor.ns = ns;
  return floor;
}

}  // namespace kl
