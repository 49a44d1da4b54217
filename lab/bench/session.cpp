#include <lab/bench/session.hpp>

#include <lab/core/clock.hpp>
#include <lab/stats/order.hpp>

#include <algorithm>
#include <cmath>

namespace kl {
namespace {

using stats::Arm::baseline;
using stats::Arm::candidate;
using Place = stats::Arm;

constexpr int kRowsPerCall = 2;
constexpr size_t kStopInterval = 8;    // blocks between two questions to the stopping rule
constexpr double kOverrun = 3;         // a slow candidate may take this many caps, not more

class Session {
 public:
  explicit Session(const SessionSetup& setup)
      : setup_(setup),
        slots_(call_slots(*setup.target, setup.cases->size())),
        random_(derive_seed(setup.seed, "process " + std::to_string(setup.index))) {
    result_.series.index = setup.index;
    result_.series.control = setup.control;
    result_.series.candidate_first = setup.candidate_first;
    for (ArmSeries* series : {&result_.series.baseline_cold, &result_.series.candidate_cold,
                              &result_.series.baseline_warm, &result_.series.candidate_warm}) {
      series->worker_ns.resize(slots_.size());
      series->parent_ns.resize(slots_.size());
      series->processor_ns.resize(slots_.size());
    }
    for (const CallSlot& slot : slots_)
      calls_per_step_.push_back((*setup.cases)[slot.seam_case].shape.calls_of(
          setup.target->operations[slot.operation].name));
  }

  Result<SessionResult> run() {
    if (start() && warm_up()) measure();
    if (error_) return *error_;
    if (worker_) {
      result_.confinement = worker_->confinement();
      result_.printed = worker_->printed();
    }
    return std::move(result_);
  }

 private:
  // Each step answers whether to go on; a fault is in result_, an error in error_.
  bool start();
  bool add_arm(Place place);
  bool warm_up();
  void measure();
  bool inspect();
  bool block();
  bool letters_of_block();
  void set_aside(std::string why, size_t letters_before);
  bool letter(Place place, bool cold, bool recorded);
  bool cold_letter(Place place, ArmSeries* series);
  bool warm_letter(Place place, ArmSeries* series);
  bool renew(Place place, size_t slot);
  bool call(Place place, size_t slot, bool flush, ArmSeries* series);
  bool check(Place place, size_t slot, bool whole);
  bool enough(double elapsed_seconds);

  Arm& arm(Place place) { return *arms_[place == candidate ? 1 : 0]; }
  bool fail(Place place, Fault fault, std::optional<FailingElement> failing = {}) {
    result_.fault = SessionFault{std::move(fault), place == baseline, std::move(failing)};
    return false;
  }
  size_t slot_of(size_t seam_case, size_t operation) const {
    return seam_case * setup_.target->operations.size() + operation;
  }

  const SessionSetup& setup_;
  std::vector<CallSlot> slots_;
  std::vector<int64_t> calls_per_step_;
  std::mt19937_64 random_;
  std::unique_ptr<Worker> worker_;
  ArmId libraries_[2] = {-1, -1};
  std::optional<Arm> arms_[2];
  bool whole_ = false;          // the letter that runs now is compared wholly
  double whole_chance_ = 0;
  int64_t planned_blocks_ = 0;
  double fastest_mhz_ = 0;
  SessionResult result_;
  std::optional<Error> error_;
};

bool Session::start() {
  auto started = Worker::start(setup_.worker);
  if (auto* fault = std::get_if<Fault>(&started)) return fail(baseline, *fault);
  worker_ = std::move(std::get<0>(started));
  const std::filesystem::path* files[2] = {&setup_.baseline, &setup_.candidate};
  for (const Place place : {baseline, candidate}) {
    const int at = place == candidate ? 1 : 0;
    auto loaded = worker_->load(*files[at], setup_.target->key, setup_.target->services);
    if (auto* fault = std::get_if<Fault>(&loaded)) return fail(place, *fault);
    libraries_[at] = std::get<0>(loaded);
  }
  // Addresses differ between the arms; which of them comes first alternates with the process.
  const Place first = setup_.candidate_first ? candidate : baseline;
  return add_arm(first) && add_arm(stats::other(first));
}

bool Session::add_arm(Place place) {
  const int at = place == candidate ? 1 : 0;
  std::optional<ArmId> fallback;
  if (place == candidate) fallback = libraries_[0];
  auto made = Arm::create(*worker_, *setup_.target, *setup_.cases, libraries_[at], fallback);
  if (auto* fault = std::get_if<Fault>(&made)) return fail(place, *fault);
  arms_[at] = std::move(std::get<0>(made));
  if (place == candidate) result_.refusals = arms_[at]->refusals();
  return true;
}

// Two letters of each kind and arm that do not count; the baseline's second one plans the rest.
bool Session::warm_up() {
  double baseline_seconds = 0;
  for (int round = 0; round < 2; ++round)
    for (const Place place : {baseline, candidate}) {
      const int64_t begin = monotonic_ns();
      if (!letter(place, true, false) || !letter(place, false, false)) return false;
      if (place == baseline) baseline_seconds = 1e-9 * static_cast<double>(monotonic_ns() - begin);
    }
  planned_blocks_ =
      std::max<int64_t>(3, std::llround(setup_.limits.cap_seconds / (4 * baseline_seconds)));
  whole_chance_ = setup_.whole_checks / static_cast<double>(4 * planned_blocks_);
  return true;
}

void Session::measure() {
  const int64_t begin = monotonic_ns();
  do {
    if (!block()) return;
  } while (!enough(1e-9 * static_cast<double>(monotonic_ns() - begin)));
  whole_ = setup_.whole_checks > 0;
  if (letter(candidate, true, false)) inspect();
}

// State that only timed calls changed (of pool threads, for example) shows in a checked one.
bool Session::inspect() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!renew(candidate, slot)) return false;
    auto ran = arm(candidate).run_checked(slots_[slot]);
    auto* fault = std::get_if<Fault>(&ran);
    if (fault && fault->rule == "clock-disagrees") return true;  // one call; the verdict sees all
    if (fault) return fail(candidate, *fault);
    if (!check(candidate, slot, false)) return false;
  }
  return true;
}

bool Session::block() {
  const size_t letters_before = result_.series.baseline_cold.letters();
  const ClockSample before = setup_.clocks();
  if (!letters_of_block()) return false;
  const ClockSample after = setup_.clocks();
  fastest_mhz_ = std::max(fastest_mhz_, before.lowest_mhz.value_or(0));
  if (std::string why = disturbance(before, after, fastest_mhz_); !why.empty())
    set_aside(std::move(why), letters_before);
  return true;
}

void Session::set_aside(std::string why, size_t letters_before) {
  ProcessSeries& s = result_.series;
  const auto tail = [&](const ArmSeries& arm) {
    auto steps = step_ns(arm.worker_ns, calls_per_step_);
    return std::vector<double>(steps.begin() + static_cast<std::ptrdiff_t>(letters_before),
                               steps.end());
  };
  s.set_aside.push_back({std::move(why), tail(s.baseline_cold), tail(s.candidate_cold)});
  for (ArmSeries* arm : {&s.baseline_cold, &s.candidate_cold, &s.baseline_warm, &s.candidate_warm})
    for (auto* series : {&arm->worker_ns, &arm->parent_ns, &arm->processor_ns})
      for (auto& slot : *series) slot.resize(letters_before);
}

bool Session::letters_of_block() {
  const Place first = setup_.candidate_first ? candidate : baseline;
  const Place order[4] = {first, stats::other(first), stats::other(first), first};
  for (const bool cold : {true, false})
    for (const Place place : order) {
      whole_ = place == candidate &&
               std::uniform_real_distribution<double>(0, 1)(random_) < whole_chance_;
      if (!letter(place, cold, true)) return false;
    }
  return true;
}

bool Session::letter(Place place, bool cold, bool recorded) {
  ProcessSeries& s = result_.series;
  ArmSeries& series = place == candidate ? (cold ? s.candidate_cold : s.candidate_warm)
                                         : (cold ? s.baseline_cold : s.baseline_warm);
  ArmSeries* into = recorded ? &series : nullptr;
  return cold ? cold_letter(place, into) : warm_letter(place, into);
}

bool Session::cold_letter(Place place, ArmSeries* series) {
  const size_t cases = setup_.cases->size();
  for (size_t operation = 0; operation < setup_.target->operations.size(); ++operation) {
    std::vector<size_t> phase, beside;
    for (size_t c = 0; c < cases; ++c) {
      const size_t slot = slot_of(c, operation);
      (calls_per_step_[slot] > 0 ? phase : beside).push_back(slot);
    }
    if (operation > 0) std::reverse(phase.begin(), phase.end());
    phase.insert(phase.end(), beside.begin(), beside.end());
    for (const size_t slot : phase)
      if (!renew(place, slot)) return false;
    for (const size_t slot : phase)
      if (!call(place, slot, slot == phase.front(), series)) return false;
    for (const size_t slot : phase)
      if (!check(place, slot, whole_)) return false;
  }
  return true;
}

bool Session::warm_letter(Place place, ArmSeries* series) {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!renew(place, slot) || !call(place, slot, false, series) || !check(place, slot, whole_))
      return false;
  }
  return true;
}

bool Session::renew(Place place, size_t slot) {
  auto renewed = arm(place).renew(slots_[slot], random_);
  if (auto* fault = std::get_if<Fault>(&renewed)) return fail(place, *fault);
  return true;
}

bool Session::call(Place place, size_t slot, bool flush, ArmSeries* series) {
  auto ran = arm(place).run(slots_[slot], flush);
  if (auto* fault = std::get_if<Fault>(&ran)) return fail(place, *fault);
  const CallTiming& timing = std::get<0>(ran);
  if (series == nullptr) return true;
  ++result_.timed_calls;
  series->worker_ns[slot].push_back(timing.worker_ns);
  series->parent_ns[slot].push_back(timing.parent_ns);
  series->processor_ns[slot].push_back(timing.processor_ns);
  return true;
}

bool Session::check(Place place, size_t slot, bool whole) {
  const SeamCase& seam_case = (*setup_.cases)[slots_[slot].seam_case];
  const auto rows = setup_.checker->draw_rows(seam_case, kRowsPerCall, random_);
  if (!whole && rows.empty()) return true;
  auto fetched = arm(place).fetch(slots_[slot], whole ? nullptr : &rows);
  if (auto* fault = std::get_if<Fault>(&fetched)) return fail(place, *fault);
  const FinishedCall finished = arm(place).finished(slots_[slot]);
  const auto checked = whole ? setup_.checker->whole(seam_case, finished)
                             : setup_.checker->rows(seam_case, finished, rows);
  if (!checked) {
    error_ = checked.error();
    return false;
  }
  if (checked->needs_whole) return check(place, slot, true);
  result_.elements_checked += checked->elements;
  if (checked->elements > 0) ++result_.calls_checked;
  if (!checked->failing) return true;
  const FailingElement& f = *checked->failing;
  std::string index;
  for (const int64_t i : f.index) index += (index.empty() ? "" : ", ") + std::to_string(i);
  return fail(place,
              {Status::rejected, "timed-call-wrong",
               f.operation + " " + f.output + "[" + index + "] of a timed call is " + f.got_text +
                   (checked->unwritten ? " (never written)" : "") + ", the oracle says " +
                   std::to_string(f.expected) + " within " + std::to_string(f.bound)},
              f);
}

// Enough blocks for precision, the number planned from the baseline, or too much time.
bool Session::enough(double elapsed_seconds) {
  ProcessSeries& s = result_.series;
  const size_t blocks = s.baseline_cold.letters() / 2;
  if (static_cast<int64_t>(blocks) >= planned_blocks_) {
    s.stopped = "planned";
    return true;
  }
  if (static_cast<int64_t>(s.set_aside.size()) >= planned_blocks_) {
    s.stopped = "unsteady";
    return true;
  }
  if (elapsed_seconds > kOverrun * setup_.limits.cap_seconds) {
    s.stopped = "cap";
    return true;
  }
  if (blocks == 0 || blocks % kStopInterval != 0) return false;
  const auto a = step_ns(s.baseline_cold.worker_ns, calls_per_step_);
  const auto b = step_ns(s.candidate_cold.worker_ns, calls_per_step_);
  std::vector<double> ratios;
  for (size_t i = 0; i < blocks; ++i)
    ratios.push_back(stats::block_log_ratio(a[2 * i], b[2 * i], b[2 * i + 1], a[2 * i + 1]));
  const stats::BlockStop stop = stats::block_stop(ratios, 0, setup_.limits);
  if (stop.stop) s.stopped = stop.why;
  return stop.stop;
}

}  // namespace

Result<SessionResult> run_session(const SessionSetup& setup) { return Session(setup).run(); }

}  // namespace kl
