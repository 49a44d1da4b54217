#include <trainer/session.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/core/fingerprint.hpp>
#include <trainer/blas.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>

namespace kl::trainer {
namespace {

constexpr double kRunawayLoss = 100;

std::map<std::string, SeamCounts> difference(const std::map<std::string, SeamCounts>& after,
                                             const std::map<std::string, SeamCounts>& before) {
  std::map<std::string, SeamCounts> result;
  for (const auto& [seam, counts] : after) result[seam] = counts - before.at(seam);
  return result;
}

void add_to(std::map<std::string, SeamCounts>& total, const std::map<std::string, SeamCounts>& more) {
  for (const auto& [seam, counts] : more) {
    total[seam].forward += counts.forward;
    total[seam].backward += counts.backward;
    total[seam].ns += counts.ns;
  }
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Config& config, Dataset dataset,
                                               const SeamFiles& files) {
  KL_CHECK(validate(config));
  const int threads = config.threads > 0 ? static_cast<int>(config.threads) : usable_cores();
  set_threads(threads);
  if (static_cast<int64_t>(dataset.facts.piece_bytes.size()) > config.vocab)
    return make_error(Status::usage, "the data has " + std::to_string(dataset.facts.piece_bytes.size()) +
                                         " tokens, the model " + std::to_string(config.vocab),
                      "raise vocab");
  KL_TRY(auto seams, SeamSet::open(config, files, dataset.facts.piece_bytes, threads));
  return std::unique_ptr<Session>(new Session(config, std::move(dataset), std::move(seams), threads));
}

Session::Session(const Config& config, Dataset dataset, std::unique_ptr<SeamSet> seams, int threads)
    : config_(config), dataset_(std::move(dataset)), layout_(config_), threads_(threads),
      seams_(std::move(seams)), model_(config_, layout_, *seams_, threads), optimiser_(config_, layout_),
      packer_(dataset_.train, config_.sequence, static_cast<uint64_t>(config_.seed), true),
      weights_(static_cast<size_t>(layout_.size())), gradients_(weights_.size()),
      inputs_(static_cast<size_t>(config_.tokens_per_step())), targets_(inputs_.size()) {
  initialise(layout_, config_, weights_);
  step_calls_ = evaluation_calls_ = seams_->counts();
}

void Session::next_batch() {
  for (int64_t row = 0; row < config_.rows * config_.accumulation; ++row)
    packer_.next(inputs_.data() + row * config_.sequence, targets_.data() + row * config_.sequence);
}

void Session::skip_batch() { next_batch(); }

void Session::restart_tokens() {
  packer_ = RowPacker(dataset_.train, config_.sequence, static_cast<uint64_t>(config_.seed), true);
}

double Session::accumulate_gradients() {
  double loss = 0;
  const auto scale = static_cast<float>(1.0 / static_cast<double>(config_.tokens_per_step()));
  for (int64_t micro = 0; micro < config_.accumulation; ++micro) {
    const int32_t* inputs = inputs_.data() + micro * config_.tokens();
    const int32_t* targets = targets_.data() + micro * config_.tokens();
    loss += model_.forward(weights_.data(), inputs, targets);
    if (!std::isfinite(loss)) break;
    model_.backward(weights_.data(), gradients_.data(), inputs, targets, scale);
  }
  return loss / static_cast<double>(config_.accumulation);
}

Result<StepResult> Session::step(double rate_factor) {
  const auto before = seams_->counts();
  const int64_t start = monotonic_ns();
  next_batch();
  StepResult result;
  result.index = index_;
  result.loss = accumulate_gradients();
  result.runaway = !std::isfinite(result.loss) || result.loss > kRunawayLoss;
  result.grad_norm = result.runaway
                         ? std::nan("")
                         : optimiser_.step(weights_.data(), gradients_.data(), rate_factor);
  result.ns = monotonic_ns() - start;
  ++index_;
  result.seams = difference(seams_->counts(), before);
  add_to(step_calls_, result.seams);
  KL_CHECK(seams_->fault());
  return result;
}

Result<StepResult> Session::differentiate() {
  const auto before = seams_->counts();
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  const int64_t start = monotonic_ns();
  next_batch();
  StepResult result;
  result.loss = accumulate_gradients();
  double squares = 0;
  for (const float g : gradients_) squares += static_cast<double>(g) * static_cast<double>(g);
  result.grad_norm = std::sqrt(squares);
  result.ns = monotonic_ns() - start;
  result.seams = difference(seams_->counts(), before);
  add_to(step_calls_, result.seams);
  KL_CHECK(seams_->fault());
  return result;
}

Result<Evaluation> Session::evaluate() {
  const auto before = seams_->counts();
  const int64_t available = std::min(config_.eval_tokens, dataset_.facts.held_out_tokens);
  const int64_t batches = std::max<int64_t>(1, available / config_.tokens());
  RowPacker rows(dataset_.held_out, config_.sequence, 0, false);
  const auto& piece_bytes = dataset_.facts.piece_bytes;
  Evaluation evaluation;
  double nats = 0, nats_of_bytes = 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t row = 0; row < config_.rows; ++row)
      rows.next(inputs_.data() + row * config_.sequence, targets_.data() + row * config_.sequence);
    model_.forward(weights_.data(), inputs_.data(), targets_.data());
    for (int64_t n = 0; n < config_.tokens(); ++n) {
      const double nll = static_cast<double>(model_.nll()[n]);
      const int32_t bytes = piece_bytes[static_cast<size_t>(targets_[static_cast<size_t>(n)])];
      nats += nll;
      ++evaluation.tokens;
      if (bytes == 0) continue;
      nats_of_bytes += nll;
      evaluation.bytes += bytes;
    }
  }
  evaluation.val_loss = nats / static_cast<double>(evaluation.tokens);
  evaluation.val_bpb = nats_of_bytes / (std::numbers::ln2 * static_cast<double>(evaluation.bytes));
  add_to(evaluation_calls_, difference(seams_->counts(), before));
  KL_CHECK(seams_->fault());
  return evaluation;
}

int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (int64_t kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  return 0;
}

}  // namespace kl::trainer
