#include <lab/verify/later_calls.hpp>

#include <lab/verify/case_queue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kl {

namespace {

constexpr int kDraws = 3;
// Page tables, lazily bound symbols and the run-time's own buffers grow by less.
constexpr int64_t kGrowthBytes = 256 << 10;

constexpr std::array<Case, kDraws> kCases = {Case{Distribution::normal, 0, true},
                                             Case{Distribution::normal, 1, true},
                                             Case{Distribution::permuted_rows, 0, true}};

class LaterCalls {
 public:
  LaterCalls(Worker& worker, ArmId arm, const Target& target, const CaseGroup& group)
      : worker_(worker), arm_(arm), target_(target), group_(group) {}

  bool draw(const OracleLibrary& oracle, uint64_t seed) {
    for (const Case& item : kCases) {
      auto data = prepare_case(oracle, target_, group_, item, derive_seed(seed, "later"));
      if (!data.ok()) {
        report_.lab_error = data.error();
        return false;
      }
      data_.push_back(std::move(*data));
    }
    return true;
  }

  // Empty when declined (the champion would run) or failed.
  std::optional<CallSite> site() {
    auto created = CallSite::create(worker_, arm_, data_[0]);
    if (const auto* fault = std::get_if<Fault>(&created)) {
      fail(*fault, 0);
      return std::nullopt;
    }
    auto& made = std::get<0>(created);
    if (auto* ready = std::get_if<CallSite>(&made)) return std::move(*ready);
    return std::nullopt;
  }

  void repeat(CallSite& site, uint64_t seed, int rounds) {
    std::optional<Worker::Footprint> early;
    for (int round = 0; round < rounds && !report_.failure; ++round) {
      const size_t draw = mix_seed(seed + static_cast<uint64_t>(round)) % kDraws;
      one_round(site, draw, round);
      if (round == rounds / 4) early = footprint(draw);
    }
    const auto late = report_.failure ? std::nullopt : footprint(0);
    if (early && late) check_growth(*early, *late, rounds - rounds / 4);
  }

  void interleave(CallSite& a, CallSite& b) {
    for (auto [site, data] : {std::pair{&a, &data_[0]}, {&b, &data_[1]}}) {
      auto written = site->write(*data, 0);
      if (const auto* fault = std::get_if<Fault>(&written)) return fail(*fault, 0);
    }
    std::array<std::vector<OutputBytes>, 2> outputs;
    for (size_t op = 0; op < data_[0].operations.size(); ++op)
      for (size_t layer = 0; layer < 2; ++layer) {
        auto bytes = (layer == 0 ? a : b).run(op, static_cast<int>(layer));
        if (const auto* fault = std::get_if<Fault>(&bytes)) return fail(*fault, layer);
        outputs[layer].push_back(std::get<0>(std::move(bytes)));
      }
    for (size_t layer = 0; layer < 2 && !report_.failure; ++layer) {
      judge(layer, std::move(outputs[layer]), 0);
      if (report_.failure) report_.failure->rule = "state-outside-saved";
    }
  }

  LaterCallsReport take() { return std::move(report_); }

 private:
  void fail(const Fault& fault, size_t draw) {
    report_.failure = failure_of(fault, context(draw).name());
  }
  TrialContext context(size_t draw) const { return {&target_, &group_, &kCases[draw]}; }

  // Hands the outputs back: those of a trainer's shape are large.
  std::vector<OutputBytes> judge(size_t draw, std::vector<OutputBytes> outputs, int pattern) {
    CaseResult result = judge_case(context(draw), data_[draw], std::move(outputs), pattern);
    report_.elements += result.elements;
    if (result.failure) report_.failure = std::move(result.failure);
    return std::move(result.outputs);
  }

  // Identical bits to an answer already judged need no second judgement.
  void one_round(CallSite& site, size_t draw, int round) {
    auto outputs = run_all(site, data_[draw], round % kPoisonPatterns);
    if (const auto* fault = std::get_if<Fault>(&outputs)) return fail(*fault, draw);
    report_.calls += static_cast<int64_t>(data_[draw].operations.size());
    auto& known = known_[draw];
    if (known == std::get<0>(outputs)) return;
    auto judged = judge(draw, std::get<0>(std::move(outputs)), round % kPoisonPatterns);
    if (report_.failure) {
      report_.failure->rule = round == 0 ? report_.failure->rule : "wrong-later";
      report_.failure->proof =
          fmt::format("call {} of this shape, {}", round + 1, report_.failure->proof);
    } else if (known.empty()) {
      known = std::move(judged);
    }
  }

  std::optional<Worker::Footprint> footprint(size_t draw) {
    auto read = worker_.footprint();
    if (const auto* fault = std::get_if<Fault>(&read)) {
      fail(*fault, draw);
      return std::nullopt;
    }
    return std::get<0>(read);
  }

  void check_growth(const Worker::Footprint& early, const Worker::Footprint& late, int rounds) {
    report_.resident_growth_bytes = late.resident_bytes - early.resident_bytes;
    report_.open_files_growth = late.open_files - early.open_files;
    if (report_.resident_growth_bytes <= kGrowthBytes && report_.open_files_growth <= 0) return;
    report_.failure =
        CaseFailure{Status::rejected, "leak",
                    fmt::format("over {} calls the worker grew by {} bytes and {} open files",
                                rounds, report_.resident_growth_bytes, report_.open_files_growth),
                    std::nullopt};
  }

  Worker& worker_;
  ArmId arm_;
  const Target& target_;
  const CaseGroup& group_;
  std::vector<CaseData> data_;
  std::array<std::vector<OutputBytes>, kDraws> known_;
  LaterCallsReport report_;
};

}  // namespace

LaterCallsReport try_later_calls(Worker& worker, ArmId arm, const OracleLibrary& oracle,
                                 const Target& target, const CaseGroup& group, uint64_t seed,
                                 int rounds) {
  LaterCalls calls(worker, arm, target, group);
  if (calls.draw(oracle, seed))
    if (auto site = calls.site()) calls.repeat(*site, seed, rounds);
  return calls.take();
}

LaterCallsReport try_interleaved(Worker& worker, ArmId arm, const OracleLibrary& oracle,
                                 const Target& target, const CaseGroup& group, uint64_t seed) {
  LaterCalls calls(worker, arm, target, group);
  if (!calls.draw(oracle, seed)) return calls.take();
  auto a = calls.site();
  auto b = a ? calls.site() : std::nullopt;
  if (a && b) calls.interleave(*a, *b);
  return calls.take();
}

}  // namespace kl
