#include <lab/flow/assess.hpp>

#include <lab/core/shell.hpp>
#include <lab/flow/decision.hpp>
#include <lab/flow/evidence.hpp>
#include <lab/flow/external.hpp>
#include <lab/flow/relevance.hpp>
#include <lab/stats/ab_look.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kl {
namespace {

constexpr double kSmallestGain = 0.005;

// A suite is no evidence of its own: each of its presets has its integration-ab event.
bool is_integration(const LedgerEvent& e) { return e.event_type == "integration-ab"; }
bool is_candidate_evidence(const LedgerEvent& e) {
  return e.event_type == "verify" || e.event_type == "bench" || is_integration(e);
}
// The champion measured against itself says nothing about a candidate.
bool is_of_champion(const LedgerEvent& e) {
  return !e.identity.kernel.empty() && e.identity.kernel == e.identity.baseline;
}
Status status_of(const LedgerEvent& e) {
  return status_from_string(e.status).value_or(Status::error);
}

// details.KEY, or the same key of the whole record in details.record.
const Json* member(const Json* object, std::string_view key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto it = object->find(key);
  return it == object->end() ? nullptr : &*it;
}
const Json* detail(const LedgerEvent& e, std::string_view key) {
  if (const Json* found = member(&e.details, key)) return found;
  return member(member(&e.details, "record"), key);
}
// A text of the record, or nothing.
std::string text_in(const LedgerEvent& e, std::string_view key) {
  const Json* value = detail(e, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}
std::optional<double> number_in(const Json* value) {
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}
std::optional<double> number_in(const Json* object, std::string_view key) { return number_in(member(object, key)); }

bool is_of_trace(std::string_view event_type) {
  static constexpr std::array types = {"capture", "trace-profile", "auto-review", "trace-review", "deep-profile"};
  return std::find(types.begin(), types.end(), event_type) != types.end();
}

std::string against(const LedgerEvent& e) {
  const Json* value = detail(e, "against");
  if (value == nullptr) value = e.event_type == "bench" ? detail(e, "baseline") : nullptr;
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  return e.event_type == "bench" || is_integration(e) ? "champion" : "";
}

// A calibration holds shares by seam, or by preset and seam when it covers several presets.
std::optional<double> share_in(const LedgerEvent& e, const std::string& preset,
                               const std::string& seam) {
  const Json* shares = detail(e, "seam_share");
  if (const Json* of_preset = member(shares, preset)) shares = of_preset;
  return number_in(shares, seam);
}
std::optional<double> delta_eff_in(const LedgerEvent& e, const std::string& preset) {
  if (const Json* value = detail(e, "delta_eff"); value != nullptr && value->is_number())
    return value->get<double>();
  if (const auto delta = number_in(member(detail(e, "aa"), preset), "delta_eff")) return delta;
  return number_in(detail(e, "look"), "delta");
}
// A calibration without a preset of its own covers those it has shares for.
bool is_of_preset(const LedgerEvent& e, const std::string& preset) {
  if (e.preset == preset) return true;
  if (e.event_type != "calibration") return false;
  for (const auto* key : {"seam_share", "aa"})
    if (member(detail(e, key), preset) != nullptr) return true;
  return false;
}

EvidenceLine line_of(const LedgerEvent& e) {
  return {e.id,     e.created_at, e.event_type,      e.status,   e.metric_name, e.metric_value,
          e.preset, e.workspace,  e.identity.kernel, against(e), false,         {}};
}

bool is_finished_ab(const LedgerEvent& e) {
  static constexpr std::array finished = {Status::validated, Status::regressed, Status::mixed,
                                          Status::equivalent, Status::inconclusive};
  return is_integration(e) && against(e) == "champion" && !is_of_champion(e) &&
         std::find(finished.begin(), finished.end(), status_of(e)) != finished.end();
}
bool is_proof_against(Status status) {
  return status == Status::mismatch || status == Status::rejected;
}
// A bench that keeps a kernel from promotion whatever an A/B says; empty: it does not.
std::string why_bench_refuses(const LedgerEvent& event, Status status) {
  const Json* reason = detail(event, "reason");
  if (status == Status::regressed && reason != nullptr && *reason == "other-case-regressed")
    return "bench says regressed for this kernel: another case than the step's sum lost time";
  if (is_proof_against(status) || status == Status::suspect)
    return fmt::format("bench says {} for this kernel", event.status);
  return {};
}
bool is_failure(Status status) {
  return status == Status::build_failed || status == Status::load_failed ||
         status == Status::execution_failed || status == Status::timed_out;
}

// Sorts the events into the groups of the assessment and gathers the facts on the way.
class Gathering {
 public:
  Gathering(std::span<const LedgerEvent> events, const AssessRequest& request) : request_(request) {
    a_.target = request.target;
    a_.engine = request.engine;
    a_.preset = request.preset;
    a_.stand_in_preset = request.stand_in_preset;
    a_.champion_hash = request.champion_hash;
    a_.candidate_hash = request.candidate_hash;
    a_.workspace = request.workspace;
    if (a_.candidate_hash.empty()) find_last_candidate(events);
    now_ = request.now;
    now_.kernel = a_.candidate_hash;
    now_.baseline = request.champion_hash;
    for (const auto& event : events) {
      if (event.engine != request.engine) continue;
      if (event.event_type == "trace-profile" && is_external(event.preset)) f_.other_traces.insert(event.preset);
      if (event.event_type == "calibration")
        take_calibration(event);
      else if (is_of_trace(event.event_type))
        take_trace(event);
      else if (event.target == request.target)
        take(event);
    }
    finish();
  }

  Assessment& assessment() { return a_; }
  const Facts& facts() const { return f_; }

 private:
  void find_last_candidate(std::span<const LedgerEvent> events) {
    for (auto it = events.rbegin(); it != events.rend(); ++it) {
      if (it->target != request_.target || it->engine != request_.engine || !it->identified())
        continue;
      if (!is_candidate_evidence(*it) || it->identity.kernel.empty() || is_of_champion(*it))
        continue;
      a_.candidate_hash = it->identity.kernel;
      if (a_.workspace.empty()) a_.workspace = it->workspace;
      return;
    }
  }

  // True when the event was set aside: it is of no identity or of another machine class.
  bool set_aside(const LedgerEvent& event) {
    if (!event.identified()) {
      a_.unidentified.push_back(line_of(event));
      a_.unidentified.back().because = {"recorded without identity (ledger version 1)"};
      return true;
    }
    const std::string& mine = now_.fingerprint_class;
    if (request_.external && is_of_trace(event.event_type)) return false;
    if (mine.empty() || event.identity.fingerprint_class.empty() ||
        event.identity.fingerprint_class == mine)
      return false;
    a_.other_class.push_back(line_of(event));
    a_.other_class.back().because = {"another machine class"};
    return true;
  }

  void take_calibration(const LedgerEvent& event) {
    if (!is_of_preset(event, request_.preset) || set_aside(event)) return;
    Identity now = now_;
    now.seams = request_.champion_set;
    auto reasons = stale_reasons(event, now);
    if (status_of(event) == Status::unstable)
      reasons.push_back("unstable: " + text_in(event, "reason"));
    else if (status_of(event) != Status::ok)
      reasons.push_back("it failed");
    EvidenceLine line = line_of(event);
    line.metric_name = "seam_share";
    line.metric_value = share_of(event);
    line.counts = reasons.empty();
    line.because = reasons;
    (line.counts ? a_.trace : a_.stale).push_back(line);
    if (!line.counts) return;
    use_share(event);
    weigh(event);
  }

  // What a trace says holds for the preset, class and champions it was recorded with; an imported one's for its preset
  // alone, wherever and whatever it ran.
  void take_trace(const LedgerEvent& event) {
    const bool of_one_target = event.event_type == "trace-review" || event.event_type == "deep-profile";
    if (event.preset != request_.preset || (of_one_target && event.target != request_.target) || set_aside(event))
      return;
    Identity now = request_.external ? Identity{} : now_;
    now.seams = request_.champion_set;
    auto reasons = stale_reasons(event, now);
    if (status_of(event) != Status::ok) reasons.push_back("it ended " + event.status);
    EvidenceLine line = line_of(event);
    line.counts = reasons.empty();
    line.because = reasons;
    if (line.counts) use_trace(event, line);
    if (line.counts && event.event_type == "trace-profile") weigh(event);
    (line.counts || status_of(event) != Status::ok ? a_.trace : a_.stale).push_back(std::move(line));
  }

  void use_trace(const LedgerEvent& event, EvidenceLine& line) {
    if (event.event_type == "capture") {
      f_.captured = f_.capture_unprofiled = true;
      a_.capture_file = text_in(event, "prefix") + ".metadata.json";
    } else if (event.event_type == "trace-profile") {
      f_.traced = true;
      f_.capture_unprofiled = false;
      a_.trace_profile_file = text_in(event, "output_file");
      if (!low_relevance_.active) a_.relevance = a_.relevance_by = "";  // of an older trace
      if (knows_less(event)) {
        line.counts = false;
        line.because = {"shares of families, and the seam's own is known"};
      } else {
        use_share(event);
        use_bound(event);
        if (const auto share = share_of(event)) reconsider(event, *share);
      }
      line.metric_name = "seam_share";
      line.metric_value = share_of(event);
    } else if (event.event_type == "auto-review") {
      const Json* judged = member(detail(event, "relevance"), request_.target);
      if (judged == nullptr || !judged->is_string()) return;
      judge(event, judged->get<std::string>(), "auto-review");
    } else if (event.event_type == "trace-review") {
      take_back(weak_diagnosis_, "a person has judged it since");
      judge(event, text_in(event, "relevance"), "a person");
    } else {
      f_.deep_profiled = true;
      a_.diagnosis = text_in(event, "diagnosis");
      a_.diagnosis_confidence = number_in(detail(event, "confidence"));
      a_.deep_profile_file = text_in(event, "output_file");
      if (is_weak(a_.diagnosis, a_.diagnosis_confidence.value_or(0)))
        demote(weak_diagnosis_, fmt::format("{} calls it {} with confidence {:.2f}, which is weak", name_of(event), a_.diagnosis,
                                            a_.diagnosis_confidence.value_or(0)),
               "its score is halved until a person has judged it");
      else
        take_back(weak_diagnosis_, fmt::format("{} is not weak", name_of(event)));
    }
  }

  void judge(const LedgerEvent& event, const std::string& relevance, const std::string& by) {
    a_.relevance = relevance;
    a_.relevance_by = by;
    const auto known = relevance_from_string(relevance);
    if (known && weight_of(*known) < 1)
      demote(low_relevance_, fmt::format("{} judged its relevance {}", by == "auto-review" ? name_of(event) : by, relevance),
             fmt::format("its score is multiplied by {:g}", weight_of(*known)));
    else
      take_back(low_relevance_, fmt::format("{} judged its relevance {}", by, relevance));
  }

  // Negative evidence ------------------------------------------------------------------------

  // Holds until something newer of its kind says otherwise, or a trace shows a clearly larger share than then.
  struct Demotion {
    bool active = false;
    std::string what;
    std::optional<double> share;  // of the step when it came
    std::string id;               // of the event
  };
  // A sentence about it. The same evidence again replaces it, so that the list tells what moved and not how often.
  struct Said {
    const Demotion* open;  // null: of none that still holds
    bool stays;            // a newer trace left it as it was
    std::string sentence;
  };
  void say(const Demotion* of, bool stays, std::string sentence) {
    std::erase_if(said_, [&](const Said& said) { return of != nullptr && said.open == of && (!stays || said.stays); });
    said_.push_back({of, stays, std::move(sentence)});
  }
  void close(Demotion& demotion) {
    demotion.active = false;
    for (Said& said : said_)
      if (said.open == &demotion) said.open = nullptr;
  }

  static std::string name_of(const LedgerEvent& event) {
    return "the " + event.event_type + (event.created_at.empty() ? "" : " of " + event.created_at.substr(0, 16));
  }
  static std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

  void demote(Demotion& demotion, const std::string& what, const std::string& effect) {
    demotion = {true, what, f_.seam_share, {}};
    say(&demotion, false, fmt::format("{}{}: {}.", what, f_.seam_share ? fmt::format(" at {} of the step", percent(*f_.seam_share)) : "", effect));
  }
  void take_back(Demotion& demotion, const std::string& because) {
    if (!demotion.active) return;
    close(demotion);
    say(nullptr, false, fmt::format("{}: that {} no longer holds it down.", because, demotion.what));
  }

  // True when the newer trace takes the demotion back.
  bool comes_back(Demotion& demotion, const LedgerEvent& event, double share) {
    if (!demotion.active) return false;
    if (demotion.share && has_grown(*demotion.share, share)) {
      close(demotion);
      say(nullptr, false, fmt::format("{} shows {} of the step, {} more than when {}: the target is back.", name_of(event), percent(share),
                                      percent(share - *demotion.share), demotion.what));
      return true;
    }
    const std::string stays =
        demotion.share ? fmt::format("{} shows {} of the step: it stays demoted because {} at {}, and takes {} to come back.", name_of(event),
                                     percent(share), demotion.what, percent(*demotion.share),
                                     percent(std::max(*demotion.share * kGrowth, *demotion.share + kLeastGrowth)))
                       : fmt::format("{} shows {} of the step: it stays demoted because {}, at a share that nobody knew.", name_of(event),
                                     percent(share), demotion.what);
    say(&demotion, true, stays);
    return false;
  }

  void reconsider(const LedgerEvent& event, double share) {
    if (comes_back(low_relevance_, event, share)) a_.relevance = a_.relevance_by = "";
    if (comes_back(weak_diagnosis_, event, share)) {
      f_.deep_profiled = false;
      a_.diagnosis = a_.deep_profile_file = "";
      a_.diagnosis_confidence.reset();
    }
    if (comes_back(lost_comparison_, event, share)) {
      f_.conclusive_ab.reset();
      f_.latest_ab.reset();
      f_.latest_validated_run = 0;
      f_.came_back = true;
      for (EvidenceLine& line : a_.integration)
        if (line.id == lost_comparison_.id) {
          line.counts = false;
          line.because = {"a newer trace shows a larger share of the step"};
        }
    }
  }

  // Whether what can be gained still lies above the threshold, after anything that the bound is made of. While it
  // does not, the sentence has the newest figures.
  void weigh(const LedgerEvent& event) {
    const auto bound = gain_bound();
    if (!bound) return;
    const double needed = gain_threshold();
    const bool below = *bound < needed;
    const std::string figures = fmt::format("{} of {}", percent(std::max(0.0, *bound)), percent(needed));
    if (below == too_small_.active && (!below || figures == too_small_.what)) return;
    if (!below) close(too_small_);
    if (below) too_small_ = {true, figures, f_.seam_share, event.id};
    say(below ? &too_small_ : nullptr, false, below ? fmt::format("{} leaves at most {} of the step to gain, and {} is needed: deprioritized.", name_of(event),
                                           percent(std::max(0.0, *bound)), percent(needed))
                             : fmt::format("{} leaves up to {} of the step to gain, and {} is needed: the target is back.", name_of(event),
                                           percent(*bound), percent(needed)));
  }
  std::optional<double> gain_bound() const {
    if (!f_.seam_share) return std::nullopt;
    return *f_.seam_share * (a_.time_ratio ? 1 - *a_.time_ratio : gain_of_share_.value_or(1)) + credited_share_;
  }
  double gain_threshold() const { return std::max(kSmallestGain, a_.delta_eff.value_or(0)); }

  // Shares of families where the seam's own share is known already.
  bool knows_less(const LedgerEvent& event) const {
    return !request_.external && text_in(event, "attributed_by") == "families" && share_is_exact_;
  }

  std::optional<double> share_of(const LedgerEvent& event) const {
    return share_in(event, request_.preset, request_.external ? request_.target : request_.seam);
  }

  // 1 − floor / measured, and what the timing credits, as the trace-profile found them for this target.
  void use_bound(const LedgerEvent& event) {
    gain_of_share_.reset();
    credited_share_ = 0;
    const Json* candidates = detail(event, "candidates");
    if (candidates == nullptr || !candidates->is_array()) return;
    for (const Json& candidate : *candidates) {
      const Json* target = member(&candidate, "target");
      const auto bound = number_in(&candidate, "gain_bound"), share = number_in(&candidate, "share");
      if (target == nullptr || *target != request_.target) continue;
      credited_share_ = number_in(&candidate, "credited_share").value_or(0);  // not in records of before
      const Json* unknown = member(&candidate, "floor_unknown");
      if (unknown != nullptr && *unknown != "") continue;
      if (bound && share && *share > 0) gain_of_share_ = std::max(0.0, *bound - credited_share_) / *share;
    }
  }

  void use_share(const LedgerEvent& event) {
    if (const auto share = share_of(event)) {
      f_.seam_share = share;
      a_.share_from = event.event_type;
      share_is_exact_ = text_in(event, "attributed_by") != "families";
    }
    if (const auto delta = delta_eff_in(event, request_.preset)) a_.delta_eff = delta;
  }

  void take(const LedgerEvent& event) {
    if (event.event_type == "promotion" || event.event_type == "rejection")
      return take_decision(event);
    if (!is_candidate_evidence(event) || event.preset != request_.preset || set_aside(event))
      return;
    if (is_of_champion(event) && event.identity.kernel != a_.candidate_hash) return;
    if (is_finished_ab(event)) ++f_.tries;
    f_.any_evidence |= !is_of_champion(event);
    auto reasons = stale_reasons(event, now_);
    // Against the reference the baseline is another one by intention: shown, and moves nothing.
    const std::string rival = against(event);
    if (!rival.empty() && rival != "champion") {
      EvidenceLine line = line_of(event);
      line.because = {"against the " + rival + ": shown, and moves nothing"};
      return (is_integration(event) ? a_.integration : a_.heuristic).push_back(std::move(line));
    }
    take_share_of_ab(event);
    EvidenceLine line = line_of(event);
    line.counts = reasons.empty();
    line.because = reasons;
    if (!line.counts) return a_.stale.push_back(std::move(line));
    f_.current_evidence = true;
    (is_integration(event) ? a_.integration : a_.heuristic).push_back(std::move(line));
    take_current(event);
    weigh(event);
  }

  // The baseline legs of any A/B against this champion say what the seam's share is.
  void take_share_of_ab(const LedgerEvent& event) {
    if (!is_integration(event) || !share_of(event)) return;
    Identity now = now_;
    now.kernel.clear();
    now.flags.clear();
    if (!is_current(event, now)) return;
    use_share(event);
    EvidenceLine line = line_of(event);
    line.metric_name = "seam_share";
    line.metric_value = share_of(event);
    line.counts = true;
    a_.trace.push_back(std::move(line));
    weigh(event);
  }

  void take_current(const LedgerEvent& event) {
    const Status status = status_of(event);
    if (event.event_type == "verify") {
      f_.verified = status == Status::ok;
      if (is_proof_against(status))
        proof_ = fmt::format("verify says {} for this kernel", event.status);
      failure_ = is_failure(status) ? fmt::format("verify ended {}", event.status) : "";
    } else if (event.event_type == "bench") {
      bench_rejection_ = why_bench_refuses(event, status);
      const bool conclusive =
          status == Status::improved || status == Status::regressed || status == Status::equivalent;
      if (conclusive && event.metric_name == "time_ratio" && event.metric_value &&
          *event.metric_value > 0)
        a_.time_ratio = event.metric_value;
    } else if (is_finished_ab(event)) {
      f_.latest_ab = status;
      f_.ab_remedy = text_in(event, "remedy");
      f_.ab_pairs_needed = static_cast<int64_t>(number_in(detail(event, "n_needed")).value_or(0));
      if (status == Status::regressed || status == Status::equivalent) {
        demote(lost_comparison_, fmt::format("{} says {}", name_of(event), event.status),
               "deprioritized, and its score is multiplied by 0.1");
        lost_comparison_.id = event.id;
      } else if (status != Status::inconclusive) {
        take_back(lost_comparison_, fmt::format("{} says {}", name_of(event), event.status));
      }
      if (status != Status::inconclusive) {
        f_.conclusive_ab = status;
        f_.mixed_because = status == Status::mixed ? text_in(event, "reason") : "";
      }
      f_.latest_validated_run = status == Status::validated ? f_.latest_validated_run + 1 : 0;
    }
  }

  void take_decision(const LedgerEvent& event) {
    if (!event.identified()) {
      set_aside(event);
      return;
    }
    const bool names_this =
        !a_.candidate_hash.empty() && event.identity.kernel == a_.candidate_hash;
    const bool promotion = event.event_type == "promotion" && status_of(event) == Status::promoted;
    if (promotion) f_.tries = 0;
    if (names_this) {
      f_.promotion_recorded |= promotion;
      if (event.event_type == "rejection") proof_ = "a recorded decision rejected this kernel";
    }
    EvidenceLine line = line_of(event);
    line.counts = names_this;
    if (!names_this) line.because = {"another kernel source"};
    (names_this ? a_.integration : a_.stale).push_back(std::move(line));
  }

  void finish() {
    f_.has_candidate = !a_.candidate_hash.empty();
    f_.has_starter = request_.has_starter;
    f_.has_seam = !request_.seam.empty();
    f_.external = request_.external;
    f_.can_deep_profile = request_.can_deep_profile;
    f_.is_champion = f_.has_candidate && a_.candidate_hash == a_.champion_hash;
    if (!proof_.empty()) f_.verified = false;
    f_.rejection = !proof_.empty() ? proof_ : !failure_.empty() ? failure_ : bench_rejection_;
    f_.weak_diagnosis = a_.diagnosis_weak = weak_diagnosis_.active;
    f_.gain_bound = gain_bound();
    f_.gain_threshold = gain_threshold();
    for (const Said& said : said_) a_.moves.push_back(said.sentence);
    a_.seam_share = f_.seam_share;
    a_.gain_of_share = gain_of_share_;
    a_.gain_bound = f_.gain_bound;
    a_.gain_threshold = f_.gain_threshold;
    a_.tries = f_.tries;
    a_.opened_by = request_.opened_by;
  }

  const AssessRequest& request_;
  Identity now_;
  Assessment a_;
  Facts f_;
  std::optional<double> gain_of_share_;  // the most of its share that a better kernel can gain
  double credited_share_ = 0;            // of the step, outside its kernels
  bool share_is_exact_ = false;          // of the seam's own ranges, not of its family
  std::vector<Said> said_;
  Demotion low_relevance_, weak_diagnosis_, lost_comparison_;
  Demotion too_small_;  // what can be gained, with its figures
  std::string proof_, failure_, bench_rejection_;
};

bool has_ok(const std::vector<EvidenceLine>& lines, std::string_view event_type) {
  return std::any_of(lines.begin(), lines.end(), [&](const EvidenceLine& line) {
    return line.counts && line.event_type == event_type && line.status == "ok";
  });
}

NextStep next_step(const Assessment& a, const Facts& facts, const AssessRequest& request,
                   PromotionAnswer answer) {
  using A = PromotionAnswer;
  const std::string folder = a.workspace.empty() ? "workspaces/" + a.target : a.workspace;
  const auto verb = [&](std::string_view name, std::string_view rest = {}) {
    return fmt::format("{} {} --workspace {}{}", request.command_prefix, name, shell_word(folder),
                       rest);
  };
  const auto ab = [&](const std::string& on, const std::string& pairs) { return verb("integration-ab", on + pairs + request.ab_flags); };
  const std::string preset = a.preset.empty() ? "" : " --preset " + shell_word(a.preset);
  const std::string init =
      fmt::format("{} init --target {} --workspace {}{}", request.command_prefix, shell_word(a.target),
                  shell_word(folder), preset);
  const std::string targets = request.command_prefix + " list-targets --status";
  switch (answer) {
    case A::already_champion:
      if (a.workspace.empty())
        return {init, "nothing to promote: start a candidate from the champion"};
      if (!has_ok(a.heuristic, "verify"))
        return {verb("verify", preset), "it is the champion: is that right on this machine?"};
      return {verb("verify", preset + "   # after changing its kernel"),
              "nothing to promote: the kernel is still the champion's"};
    case A::rejected:
      return {verb("verify", preset), "mend the kernel, then verify it again"};
    case A::deprioritized:
      return {targets, "more work here cannot pay: choose another target"};
    case A::needs_capture:
      return {fmt::format("{} capture{} --output captures/{}", request.command_prefix, preset, shell_word(a.preset)),
              "nothing says yet how much of the step this seam is: trace the trainer"};
    case A::needs_trace_profile:
      if (facts.external)
        return {fmt::format("{} trace-profile --trace FILE{}", request.command_prefix, preset), "no trace is filed under this name"};
      return {fmt::format("{} trace-profile --metadata {}", request.command_prefix, shell_word(a.capture_file)),
              "the newest capture has not been read"};
    case A::needs_deep_profile:
      return {fmt::format("{} deep-profile --trace-profile {} --target {}", request.command_prefix,
                          shell_word(a.trace_profile_file), shell_word(a.target)),
              "a large share: what is it bound by?"};
    case A::needs_manual_review:
      return {fmt::format("{} review-trace --target {} --deep-profile {} --relevance {{none,low,medium,high}} --notes WHY",
                          request.command_prefix, shell_word(a.target), shell_word(a.deep_profile_file)),
              "the diagnosis is weak: a person has to judge it"};
    case A::ready_for_workspace_family:
      return {targets, "no starter here: choose a target that has one"};
    case A::ready_for_workspace:
      return {init, "a workspace from the champion is the start of a candidate"};
    case A::needs_verify:
      return {verb("verify", preset), "is the kernel right?"};
    case A::needs_integration_adapter:
      if (!request.stand_in_preset.empty())
        return {fmt::format("{} promotion-check --target {} --workspace {} --preset {}", request.command_prefix, shell_word(a.target),
                            shell_word(folder), shell_word(request.stand_in_preset)),
                "the lab's own trainer can stand in for yours; yours joins with an adapter (docs/trainer-protocol.md)"};
      return {targets, "the trainer cannot run this target's kernels"};
    case A::ready_for_integration:
      if (facts.came_back)
        return {ab(preset, request.ab_pairs), "its share of the step has grown since the last A/B: measure again"};
      return {ab(preset, request.ab_pairs), "does the trainer get faster?"};
    case A::stabilize_integration:
      if (facts.mixed_because == "shadowed") {
        if (request.presets_on_path.empty())
          return {verb("bench", preset),
                  "it must gain more: no preset here runs its seam without being told to"};
        const std::string& other = request.presets_on_path.front();
        return {ab(" --preset " + shell_word(other), request.ab_pairs),
                fmt::format("preset {} runs its seam as it is: a win there counts", other)};
      }
      if (facts.mixed_because == "memory")
        return {verb("verify", preset + "   # after changing its kernel"),
                "faster, but with more memory: save less between forward and backward, or ask for "
                "less scratch"};
      return {ab(preset, fmt::format(" --pairs {}", stats::rounded_look(facts.ab_pairs_needed > 0 ? facts.ab_pairs_needed : stats::kLooks.back()))),
              facts.ab_remedy.empty() ? "undecided: more pairs on a quieter machine"
                                      : "undecided: " + facts.ab_remedy};
    case A::needs_confirmation:
      return {ab(preset, request.ab_pairs),
              "a winner out of several tries is measured again, fresh"};
    case A::ready_to_promote:
      return {verb("promote"), "shows the patch; --apply makes it the champion"};
  }
  return {};
}

std::string settings_text(const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [field, value] : settings)
    text += (text.empty() ? "" : " ") + field + "=" + value;
  return text;
}

std::vector<std::string> notes_of(const Assessment& a, const Facts& f) {
  std::vector<std::string> notes;
  if (f.external && f.traced)
    notes.push_back(f.seam_share ? fmt::format("{} is an imported trace: a family of kernels belongs to all its targets, so its share is the most that "
                                               "this one can have; shapes and floor are unknown", a.preset)
                                 : fmt::format("{} is an imported trace, and it has no kernels of this target's family", a.preset));
  else if (f.external)
    notes.push_back(f.other_traces.empty() ? "no imported trace is on file for this engine"
                                           : fmt::format("imported traces on file: {}", fmt::join(f.other_traces, ", ")));
  if (!a.opened_by.empty())
    notes.push_back(fmt::format(
        "shadowed: preset {} does not run its seam; an A/B opens it in both arms ({}), and "
        "validates only what also beats the path of the preset",
        a.preset, settings_text(a.opened_by)));
  else if (f.has_seam && !f.seam_share && f.traced)
    notes.push_back("the newest trace does not hold this seam");
  else if (f.has_seam && !f.seam_share)
    notes.push_back("seam share unknown on this preset: capture and trace-profile, calibrate --aa or an A/B measure it");
  if (f.verified && f.has_seam && !a.time_ratio && !f.latest_ab)
    notes.push_back("no conclusive bench of this kernel: bench says cheaply whether it can matter");
  if (!a.other_class.empty())
    notes.push_back(
        fmt::format("{} events of other machine classes, not counted", a.other_class.size()));
  if (!a.unidentified.empty())
    notes.push_back(
        fmt::format("{} events without identity, which promote nothing", a.unidentified.size()));
  return notes;
}

}  // namespace

Assessment assess(std::span<const LedgerEvent> events, const AssessRequest& request) {
  Gathering gathering(events, request);
  Assessment assessment = std::move(gathering.assessment());
  const Facts& facts = gathering.facts();
  const PromotionState state = state_of(facts);
  const PromotionAnswer answer = answer_of(facts, state);
  assessment.state = to_string(state);
  assessment.answer = to_string(answer);
  assessment.blockers = blockers_of(facts);
  assessment.next = next_step(assessment, facts, request, answer);
  assessment.notes = notes_of(assessment, facts);
  return assessment;
}

std::vector<std::string> assessed_event_types() {
  return {"verify",        "bench",       "integration-ab", "calibration", "promotion", "rejection",
          "capture",       "trace-profile", "auto-review",  "trace-review",      "deep-profile"};
}

}  // namespace kl
