#include <trainer/session.hpp>

#include <trainer/range_log.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kl::trainer {
namespace {

std::map<std::string, SeamCounts> difference(const std::map<std::string, SeamCounts>& after,
                                             const std::map<std::string, SeamCounts>& before) {
  std::map<std::string, SeamCounts> result;
  for (const auto& [seam, counts] : after) result[seam] = counts - before.at(seam);
  return result;
}

void add_to(std::map<std::string, SeamCounts>& total, const std::map<std::string, SeamCounts>& more) {
  for (const auto& [seam, counts] : more) total[seam] += counts;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Config& config, Dataset dataset,
                                               const SeamFiles& files) {
  KL_CHECK(validate(config));
  if (static_cast<int64_t>(dataset.facts.piece_bytes.size()) > config.vocab)
    return make_error(Status::usage, "the data has " + std::to_string(dataset.facts.piece_bytes.size()) +
                                         " tokens, the model " + std::to_string(config.vocab),
                      "raise vocab");
  std::unique_ptr<Session> session(new Session(config, std::move(dataset)));
  KL_TRY(session->stepper_,
         open_stepper(session->config_, session->layout_, session->dataset_.facts, files));
  KL_TRY(const std::span<float> weights, session->stepper_->weights());
  initialise(session->layout_, session->config_, weights);
  KL_CHECK(session->stepper_->weights_changed());
  session->step_calls_ = session->evaluation_calls_ = session->stepper_->counts();
  return session;
}

Session::Session(const Config& config, Dataset dataset)
    : config_(config), dataset_(std::move(dataset)), layout_(config_),
      packer_(dataset_.train, dataset_.facts.bos, config_.sequence, static_cast<uint64_t>(config_.seed), true),
      inputs_(static_cast<size_t>(config_.tokens_per_step())), targets_(inputs_.size()) {}

void Session::next_batch() {
  const RangeScope range(Pass::data);
  for (int64_t row = 0; row < config_.rows * config_.accumulation; ++row)
    packer_.next(inputs_.data() + row * config_.sequence, targets_.data() + row * config_.sequence);
}

void Session::skip_batch() { next_batch(); }

void Session::restart_tokens() {
  packer_ = RowPacker(dataset_.train, dataset_.facts.bos, config_.sequence, static_cast<uint64_t>(config_.seed), true);
}

void Session::go_to(int64_t step) {
  restart_tokens();
  for (int64_t i = 0; i < step; ++i) next_batch();
  index_ = step;
}

Result<StepResult> Session::step(double progress) {
  const int64_t begin = monotonic_ns();
  next_batch();
  const auto before = stepper_->counts();
  KL_TRY(StepResult result, stepper_->step(inputs_, targets_, progress));
  result.index = index_++;
  result.seams = difference(stepper_->counts(), before);
  add_to(step_calls_, result.seams);
  result.begin_ns = begin;
  result.end_ns = monotonic_ns();
  return result;
}

Result<StepResult> Session::differentiate() {
  next_batch();
  const auto before = stepper_->counts();
  KL_TRY(StepResult result, stepper_->differentiate(inputs_, targets_));
  result.seams = difference(stepper_->counts(), before);
  add_to(step_calls_, result.seams);
  return result;
}

Result<Evaluation> Session::evaluate() {
  const auto before = stepper_->counts();
  const auto N = static_cast<size_t>(config_.tokens());
  const int64_t available = std::min(config_.eval_tokens, dataset_.facts.held_out_tokens);
  const int64_t batches = std::max<int64_t>(1, available / config_.tokens());
  RowPacker rows(dataset_.held_out, dataset_.facts.bos, config_.sequence, 0, false);
  const auto& piece_bytes = dataset_.facts.piece_bytes;
  Evaluation evaluation;
  double nats = 0, nats_of_bytes = 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t row = 0; row < config_.rows; ++row)
      rows.next(inputs_.data() + row * config_.sequence, targets_.data() + row * config_.sequence);
    KL_TRY(const std::span<const float> losses,
           stepper_->losses(std::span(inputs_).first(N), std::span(targets_).first(N)));
    for (size_t n = 0; n < N; ++n) {
      const auto nll = static_cast<double>(losses[n]);
      const auto target = static_cast<size_t>(targets_[n]);
      const int32_t bytes = target < piece_bytes.size() ? piece_bytes[target] : 0;
      nats += nll;
      ++evaluation.tokens;
      if (bytes == 0) continue;
      nats_of_bytes += nll;
      evaluation.bytes += bytes;
    }
  }
  evaluation.val_loss = nats / static_cast<double>(evaluation.tokens);
  evaluation.val_bpb = evaluation.bytes == 0
                           ? std::nan("")
                           : nats_of_bytes / (std::numbers::ln2 * static_cast<double>(evaluation.bytes));
  add_to(evaluation_calls_, difference(stepper_->counts(), before));
  return evaluation;
}

}  // namespace kl::trainer
