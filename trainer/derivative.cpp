#include <trainer/derivative.hpp>

namespace kl::trainer {

Result<StepResult> write_derivative(Session& session, const std::filesystem::path& path) {
  KL_TRY(const StepResult result, session.differentiate());
  if (result.runaway)
    return make_error(Status::execution_failed, "the loss is " + std::to_string(result.loss),
                      "give other weights, or verify the kernels of the seams");
  KL_TRY(const std::span<float> weights, session.stepper().weights());
  KL_TRY(const std::span<const float> computed, session.stepper().gradients());
  std::vector<float> gradients(computed.begin(), computed.end());
  std::vector<int32_t> tokens(session.inputs().begin(), session.inputs().end());
  std::vector<int32_t> targets(session.targets().begin(), session.targets().end());
  std::vector<double> loss = {result.loss};
  const Config& c = session.config();
  const std::vector<int64_t> batch = {c.accumulation * c.rows, c.sequence};
  std::vector<NamedTensor> tensors = {{"loss", {1}, loss}};  // first, where it is aligned
  for (NamedTensor& t : named_tensors(session.layout(), weights)) tensors.push_back(std::move(t));
  for (NamedTensor& t : named_tensors(session.layout(), gradients)) {
    t.name = "gradient." + t.name;
    tensors.push_back(std::move(t));
  }
  tensors.emplace_back("tokens", batch, tokens);
  tensors.emplace_back("targets", batch, targets);
  KL_CHECK(write_safetensors(path, tensors, {{"config", dump_line(to_json(c))}}));
  return result;
}

}  // namespace kl::trainer
