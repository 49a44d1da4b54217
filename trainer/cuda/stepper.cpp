#include <trainer/cuda/stepper.hpp>

#include <lab/core/clock.hpp>
#include <trainer/optimiser.hpp>
#include <trainer/cuda/open.hpp>
#include <trainer/cuda/token_index.hpp>

#include <algorithm>
#include <cmath>

namespace kl::trainer {

Result<std::unique_ptr<Stepper>> open_cuda_stepper(const Config& config, const Layout& layout,
                                                   const DatasetFacts& data, const SeamFiles& files) {
  return cuda::CudaStepper::open(config, layout, data, files);
}

namespace cuda {
namespace {

constexpr Group kGroups[] = {Group::head, Group::embedding, Group::value_embedding, Group::matrix, Group::lambda, Group::mu};
constexpr int kTimedReplays = 5;

AdamScalars adam_scalars(const Config& config, Group group, int64_t t, double factor) {
  const AdamSetting s = adam_setting(config, group);
  const auto steps = static_cast<double>(t);
  return {static_cast<float>(s.beta1), static_cast<float>(s.beta2),
          static_cast<float>(factor * s.rate / (1 - std::pow(s.beta1, steps))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, steps))), static_cast<float>(s.eps)};
}

template <class T>
void copy_up(T* device, Pinned<T>& host, cudaStream_t stream) {
  cudaMemcpyAsync(device, host.data(), host.bytes(), cudaMemcpyHostToDevice, stream);
}

}  // namespace

Result<std::unique_ptr<Stepper>> CudaStepper::open(const Config& config, const Layout& layout,
                                                   const DatasetFacts& data, const SeamFiles& files) {
  KL_CHECK(require_device());
  std::unique_ptr<CudaStepper> stepper(new CudaStepper(config, layout));
  KL_CHECK(stepper->start(data, files));
  return std::unique_ptr<Stepper>(std::move(stepper));
}

Outcome CudaStepper::start(const DatasetFacts& data, const SeamFiles& files) {
  KL_CHECK(stream_.create());
  KL_CHECK(begin_.create());
  KL_CHECK(end_.create());
  KL_TRY(products_, Matmul::open());
  KL_TRY(seams_, Seams::open(config_, files, arena_));
  step_ = std::make_unique<Step>(config_, layout_, *seams_, *products_, arena_);
  KL_CHECK(arena_.commit());
  std::vector<int32_t> bytes = data.piece_bytes;
  bytes.resize(static_cast<size_t>(config_.vocab), 0);
  KL_CHECK(seams_->start(bytes, 1.0 / static_cast<double>(config_.tokens_per_step()), &step_->inputs().scalars->step));
  KL_CHECK(step_->start(stream_.get()));
  KL_CHECK(tokens_.allocate(config_.tokens_per_step()));
  KL_CHECK(targets_.allocate(config_.tokens_per_step()));
  KL_CHECK(positions_.allocate(config_.tokens_per_step()));
  KL_CHECK(begin_of_token_.allocate(config_.accumulation * (config_.vocab + 1)));
  KL_CHECK(scalars_.allocate(1));
  KL_CHECK(loss_.allocate(1));
  KL_CHECK(norm_.allocate(1));
  host_weights_.resize(static_cast<size_t>(layout_.size()));
  host_gradients_.resize(host_weights_.size());
  host_losses_.resize(static_cast<size_t>(config_.tokens()));
  for (const auto& seam : describe_seams(config_)) counts_[seam.seam] = {};
  // What was copied so far did not pass through the stream that reads it.
  KL_CHECK(check(cudaDeviceSynchronize(), "preparing the step"));
  return warm_up();
}

// One gradient of token 0 everywhere: loads every kernel and chooses every product's algorithm
// before anything is captured.
Outcome CudaStepper::warm_up() {
  const std::vector<int32_t> zeros(static_cast<size_t>(config_.tokens_per_step()), 0);
  KL_CHECK(stage(zeros, zeros, 0));
  seams_->use(stream_.get(), nullptr);
  work(false);
  return finished("the first pass through the model");
}

Outcome CudaStepper::finished(const std::string& what) {
  const Outcome launched = check(cudaGetLastError(), what);
  const Outcome ended = check(cudaStreamSynchronize(stream_.get()), what);
  KL_CHECK(seams_->fault());
  KL_CHECK(products_->fault());
  KL_CHECK(launched);
  return ended;
}

Outcome CudaStepper::stage(std::span<const int32_t> inputs, std::span<const int32_t> targets, double progress) {
  const double rate_factor = schedule(progress, config_.decay_fraction);
  const auto V = static_cast<size_t>(config_.vocab), N = static_cast<size_t>(config_.tokens());
  std::copy(inputs.begin(), inputs.end(), tokens_.data());
  std::copy(targets.begin(), targets.end(), targets_.data());
  for (size_t micro = 0; micro * N < inputs.size(); ++micro)
    index_tokens(inputs.subspan(micro * N, N), {begin_of_token_.data() + micro * (V + 1), V + 1},
                 {positions_.data() + micro * N, N});
  scalars_[0].step = static_cast<uint64_t>(steps_);
  for (const Group group : kGroups)
    scalars_[0].adam[static_cast<int>(group)] = adam_scalars(config_, group, updates_ + 1, rate_factor);
  return {};
}

void CudaStepper::upload() {
  const StepInputs& to = step_->inputs();
  copy_up(to.tokens, tokens_, stream_.get());
  copy_up(to.targets, targets_, stream_.get());
  copy_up(to.begin, begin_of_token_, stream_.get());
  copy_up(to.positions, positions_, stream_.get());
  copy_up(to.scalars, scalars_, stream_.get());
}

void CudaStepper::work(bool update) {
  upload();
  step_->clear();
  for (int64_t micro = 0; micro < config_.accumulation; ++micro) step_->gradient(micro);
  step_->norm();
  if (update) step_->update();
  cudaMemcpyAsync(loss_.data(), step_->loss(), sizeof(double), cudaMemcpyDeviceToHost, stream_.get());
  cudaMemcpyAsync(norm_.data(), step_->gradient_norm(), sizeof(double), cudaMemcpyDeviceToHost, stream_.get());
}

Result<StepResult> CudaStepper::outcome_of_step(int64_t host_ns) {
  StepResult result;
  result.ns = host_ns;
  KL_TRY(result.device_ns, elapsed_ns(begin_, end_));
  result.loss = loss_[0];
  result.runaway = !(result.loss <= kRunawayLoss);
  result.grad_norm = result.runaway ? std::nan("") : norm_[0];
  ++steps_;
  return result;
}

Result<StepResult> CudaStepper::replay(Graph& graph) {
  const int64_t start = monotonic_ns();
  KL_CHECK(check(cudaEventRecord(begin_.get(), stream_.get()), "an event"));
  KL_CHECK(graph.launch());
  KL_CHECK(check(cudaEventRecord(end_.get(), stream_.get()), "an event"));
  KL_CHECK(finished("a step"));
  const int64_t ns = monotonic_ns() - start;
  for (const auto& [seam, calls] : graph.nodes().of_replay()) counts_[seam] += calls;
  return outcome_of_step(ns);
}

Outcome CudaStepper::capture_gradient() {
  if (gradient_graph_) return {};
  KL_TRY(gradient_graph_, Graph::capture(stream_.get(), *seams_, true, [this] { work(false); }));
  return products_->fault();
}

Outcome CudaStepper::capture_step() {
  if (step_graph_) return {};
  KL_TRY(step_graph_, Graph::capture(stream_.get(), *seams_, false, [this] { work(true); }));
  return products_->fault();
}

// Seams are timed on the graph of the gradient, whose every call stands between two events; the
// graph of the step has none, so that the timed steps do not pay for them.
Outcome CudaStepper::measure_seams() {
  KL_CHECK(capture_gradient());
  std::map<std::string, std::vector<int64_t>> samples;
  for (int i = 0; i < kTimedReplays; ++i) {
    KL_CHECK(gradient_graph_->launch());
    KL_CHECK(finished("a step that times the seams"));
    KL_TRY(const auto by_seam, gradient_graph_->seam_ns());
    for (const auto& [seam, ns] : by_seam) samples[seam].push_back(ns);
  }
  for (auto& [seam, values] : samples) {
    std::nth_element(values.begin(), values.begin() + kTimedReplays / 2, values.end());
    seam_ns_[seam] = values[kTimedReplays / 2];
  }
  return {};
}

Result<StepResult> CudaStepper::step(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                                     double progress) {
  KL_CHECK(stage(inputs, targets, progress));
  if (seam_ns_.empty()) KL_CHECK(measure_seams());
  KL_CHECK(capture_step());
  KL_TRY(StepResult result, replay(*step_graph_));
  if (!result.runaway) ++updates_;
  for (const auto& [seam, ns] : seam_ns_) counts_[seam].ns += ns;
  return result;
}

Result<StepResult> CudaStepper::differentiate(std::span<const int32_t> inputs, std::span<const int32_t> targets) {
  KL_CHECK(stage(inputs, targets, 0));
  KL_CHECK(capture_gradient());
  KL_TRY(StepResult result, replay(*gradient_graph_));
  KL_TRY(const auto by_seam, gradient_graph_->seam_ns());
  for (const auto& [seam, ns] : by_seam) counts_[seam].ns += ns;
  return result;
}

Result<StepResult> CudaStepper::step_without_graph(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                                                   double progress) {
  KL_CHECK(stage(inputs, targets, progress));
  seams_->use(stream_.get(), nullptr);
  const auto before = seams_->calls();
  const int64_t start = monotonic_ns();
  KL_CHECK(check(cudaEventRecord(begin_.get(), stream_.get()), "an event"));
  work(true);
  KL_CHECK(check(cudaEventRecord(end_.get(), stream_.get()), "an event"));
  KL_CHECK(finished("a step without a graph"));
  const int64_t ns = monotonic_ns() - start;
  for (const auto& [seam, calls] : seams_->calls()) counts_[seam] += calls - before.at(seam);
  KL_TRY(StepResult result, outcome_of_step(ns));
  if (!result.runaway) ++updates_;
  return result;
}

Result<std::span<const float>> CudaStepper::losses(std::span<const int32_t> inputs, std::span<const int32_t> targets) {
  KL_CHECK(stage(inputs, targets, 0));
  seams_->use(stream_.get(), nullptr);
  const auto before = seams_->calls();
  upload();
  step_->losses(0);
  KL_CHECK(check(cudaMemcpyAsync(host_losses_.data(), step_->nll(), host_losses_.size() * sizeof(float),
                                 cudaMemcpyDeviceToHost, stream_.get()), "the losses"));
  KL_CHECK(finished("an evaluation"));
  for (const auto& [seam, calls] : seams_->calls()) counts_[seam] += calls - before.at(seam);
  return std::span<const float>(host_losses_);
}

Result<std::span<float>> CudaStepper::weights() {
  KL_CHECK(check(cudaMemcpy(host_weights_.data(), step_->weights(), host_weights_.size() * sizeof(float),
                            cudaMemcpyDeviceToHost), "reading the weights"));
  return std::span<float>(host_weights_);
}

Outcome CudaStepper::weights_changed() {
  KL_CHECK(check(cudaMemcpyAsync(step_->weights(), host_weights_.data(), host_weights_.size() * sizeof(float),
                                 cudaMemcpyHostToDevice, stream_.get()), "writing the weights"));
  step_->refresh();
  return finished("writing the weights");
}

Result<std::span<const float>> CudaStepper::gradients() {
  KL_CHECK(check(cudaMemcpy(host_gradients_.data(), step_->gradients(), host_gradients_.size() * sizeof(float),
                            cudaMemcpyDeviceToHost), "reading the gradients"));
  return std::span<const float>(host_gradients_);
}

Result<OptimiserState> CudaStepper::optimiser_state() {
  const auto size = static_cast<size_t>(layout_.size());
  host_first_moment_.resize(size);
  host_second_moment_.resize(size);
  const auto down = [&](std::vector<float>& to, const float* from) {
    return check(cudaMemcpy(to.data(), from, size * sizeof(float), cudaMemcpyDeviceToHost), "reading the optimiser");
  };
  KL_CHECK(down(host_first_moment_, step_->first_moment()));
  KL_CHECK(down(host_second_moment_, step_->second_moment()));
  const std::vector<int64_t> shape = {layout_.size()};
  return OptimiserState{updates_, {{"adamw.first_moment", shape, host_first_moment_},
                                   {"adamw.second_moment", shape, host_second_moment_}}};
}

Outcome CudaStepper::optimiser_changed(int64_t updates) {
  updates_ = updates;
  const auto up = [&](float* to, const std::vector<float>& from) {
    return check(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(float), cudaMemcpyHostToDevice, stream_.get()),
                 "writing the optimiser");
  };
  KL_CHECK(up(step_->first_moment(), host_first_moment_));
  KL_CHECK(up(step_->second_moment(), host_second_moment_));
  return finished("writing the optimiser");
}

Outcome CudaStepper::perturb(const std::string& seam, uint64_t seed) {
  step_graph_.reset();  // the graphs hold the calls as they were captured
  gradient_graph_.reset();
  return seams_->perturb(seam, seed);
}

}  // namespace cuda
}  // namespace kl::trainer
