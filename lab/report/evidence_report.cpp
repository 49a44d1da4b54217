#include <lab/report/evidence_report.hpp>

#include <lab/core/hash.hpp>
#include <lab/trace/families.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

const Json& record_of(const LedgerEvent& event) {
  static const Json none = Json::object();
  const auto found = event.details.find("record");
  return found != event.details.end() && found->is_object() ? *found : none;
}

std::string text_in(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

// `seam_share` of an event: by seam, or by preset and seam when it covers several presets.
std::map<std::string, double> shares_in(const LedgerEvent& event, const std::string& preset) {
  std::map<std::string, double> shares;
  for (const Json* holder : {&event.details, &record_of(event)}) {
    const auto found = holder->find("seam_share");
    if (found == holder->end() || !found->is_object()) continue;
    const auto of_preset = found->find(preset);
    const Json& by_seam = of_preset != found->end() && of_preset->is_object() ? *of_preset : *found;
    for (const auto& [seam, share] : by_seam.items())
      if (share.is_number()) shares[seam] = share.get<double>();
    return shares;
  }
  return shares;
}

// Of a trace that knows families alone: this target's share, and what the other families take. Those of the other
// targets would count one family once for each of them.
std::map<std::string, double> shares_of_families(const Json& record, const std::string& target, double share) {
  std::map<std::string, double> shares = {{target, share}};
  const Json families = record.value("summary", Json::object()).value("families", Json::array());
  for (const Json& family : families) {
    const std::string name = text_in(family, "family");
    const auto targets = trace::targets_of_family(name);
    const auto window_share = family.find("window_share");
    if (std::find(targets.begin(), targets.end(), target) != targets.end()) continue;
    if (window_share != family.end() && window_share->is_number()) shares[name] = window_share->get<double>();
  }
  return shares;
}

class Gatherer {
 public:
  explicit Gatherer(const ReportRequest& request) : request_(request) {
    for (const auto& event : request.events)
      if (!event.id.empty()) by_id_[event.id] = &event;
    r_.assessment = request.assessment;
    r_.written_at = request.written_at;
    r_.command_prefix = request.command_prefix;
    r_.seam = request.seam;
  }

  EvidenceReport gather() {
    const Assessment& a = r_.assessment;
    // An A/B against the champion before last is stale and still the promoted kernel's evidence.
    for (const auto* group : {&a.stale, &a.heuristic, &a.integration})
      for (const auto& line : *group) take(line);
    std::stable_sort(r_.comparisons.begin(), r_.comparisons.end(),
                     [](const auto& x, const auto& y) { return x.line.created_at > y.line.created_at; });
    std::stable_sort(r_.tries.begin(), r_.tries.end(),
                     [](const auto& x, const auto& y) { return x.line.created_at < y.line.created_at; });
    take_samples();
    take_calibration();
    take_shares();
    r_.trace_change = newest_trace_change(request_.events, r_.assessment);
    take_promotion();
    HistoryRequest of_target{a.target, a.engine, "", a.champion_hash};
    r_.sources = history(request_.events, of_target, ObjectStore(request_.objects));
    take_lines();
    return std::move(r_);
  }

 private:
  template <class Record>
  std::optional<Reported<Record>> read(const EvidenceLine& line) {
    const auto event = by_id_.find(line.id);
    if (event == by_id_.end()) return std::nullopt;
    auto record = from_json<Record>(record_of(*event->second));
    if (!record.ok()) {
      r_.unreadable.push_back(fmt::format("{} of {}: {}", line.event_type, line.created_at, record.error().what));
      return std::nullopt;
    }
    return Reported<Record>{line, event->second->git_commit, event->second->git_dirty, *std::move(record)};
  }

  // Of two of the candidate the newer, but one that counts before one that does not.
  template <class Record>
  static void keep_better(std::optional<Reported<Record>>& kept, std::optional<Reported<Record>> other) {
    if (!other) return;
    const auto rank = [](const Reported<Record>& r) { return std::pair(r.line.counts, r.line.created_at); };
    if (!kept || rank(*kept) <= rank(*other)) kept = std::move(other);
  }

  void take(const EvidenceLine& line) {
    const bool of_candidate = !line.kernel.empty() && line.kernel == r_.assessment.candidate_hash;
    if (line.event_type == "verify" && of_candidate) keep_better(r_.verify, read<VerifyRecord>(line));
    if (line.event_type == "bench" && of_candidate && line.against == "champion") keep_better(r_.bench, read<BenchRecord>(line));
    if (line.event_type != "integration-ab") return;
    auto run = read<IntegrationRecord>(line);
    if (!run || run->record.pairs.empty()) return;
    if (line.against == "champion")
      r_.tries.push_back({line, run->record.tries, run->record.look.pairs, run->record.look.speed_up_low,
                          run->record.look.speed_up_high});
    if (of_candidate) r_.comparisons.push_back(*std::move(run));
  }

  void take_samples() {
    if (!r_.bench) return;
    const std::string& hash = r_.bench->record.samples_file;
    if (hash.empty()) {
      r_.samples_missing = "this bench kept no raw samples";
      return;
    }
    const auto text = ObjectStore(request_.samples).get(hash);
    if (!text.ok()) {
      r_.samples_missing = fmt::format("the raw samples {} are not in {}", hash, request_.samples.string());
      return;
    }
    if (sha256_hex(*text) != hash) {
      r_.samples_missing = fmt::format("the raw samples {} were altered after they were kept", hash);
      return;
    }
    const auto json = parse_json(*text, hash);
    auto samples = json.ok() ? from_json<BenchSamples>(*json) : Result<BenchSamples>(json.error());
    if (samples.ok())
      r_.samples = *std::move(samples);
    else
      r_.samples_missing = "the raw samples cannot be read: " + samples.error().what;
  }

  std::string machine_class() const {
    if (r_.bench) return r_.bench->record.identity.fingerprint_class;
    if (!r_.comparisons.empty()) return r_.comparisons.front().record.identity.fingerprint_class;
    if (r_.verify) return r_.verify->record.identity.fingerprint_class;
    for (const auto& line : r_.assessment.trace)
      if (const auto event = by_id_.find(line.id); event != by_id_.end()) return event->second->identity.fingerprint_class;
    return {};
  }

  void take_calibration() {
    const std::string machine = machine_class();
    for (const auto& event : request_.events) {
      if (event.event_type != "calibration" || event.engine != r_.assessment.engine) continue;
      if (machine.empty() || event.identity.fingerprint_class != machine) continue;
      EvidenceLine line{.id = event.id, .created_at = event.created_at, .event_type = event.event_type, .status = event.status,
                        .metric_name = "", .metric_value = {}, .preset = event.preset, .workspace = "", .kernel = "",
                        .against = "", .counts = true, .because = {}};
      auto found = read<Calibration>(line);
      if (found && !found->record.ceilings.empty()) r_.calibration = std::move(found);
    }
  }

  void take_shares() {
    const Assessment& a = r_.assessment;
    for (const auto& line : a.trace) {
      const auto event = by_id_.find(line.id);
      if (line.counts && line.event_type == "trace-review" && event != by_id_.end())
        r_.judgements.push_back(fmt::format("{} relevance: {}", text_in(record_of(*event->second), "relevance"),
                                            text_in(record_of(*event->second), "notes")));
      if (!line.counts || line.event_type != a.share_from || event == by_id_.end()) continue;
      auto shares = shares_in(*event->second, a.preset);
      if (!shares.contains(r_.seam)) continue;
      if (const Json& record = record_of(*event->second); text_in(record, "attributed_by") == "families")
        shares = shares_of_families(record, r_.seam, shares.at(r_.seam));
      r_.shares = std::move(shares);
      r_.share_line = line;
    }
  }

  void take_promotion() {
    const Assessment& a = r_.assessment;
    if (a.candidate_hash.empty() || a.candidate_hash != a.champion_hash) return;
    for (const auto& event : request_.events) {
      if (event.event_type != "promotion" || event.engine != a.engine || event.target != a.target) continue;
      const auto kept = event.details.find("provenance");
      if (event.identity.kernel != a.candidate_hash || kept == event.details.end()) continue;
      auto provenance = from_json<Provenance>(*kept);
      if (provenance.ok()) r_.promotion = *std::move(provenance);
    }
  }

  void take_lines() {
    std::map<std::string, std::string> wanted;  // created_at + id, so that they come in order
    const auto want = [&](const EvidenceLine& line) {
      if (!line.id.empty()) wanted[line.created_at + line.id] = line.id;
    };
    const Assessment& a = r_.assessment;
    for (const auto* group : {&a.heuristic, &a.trace, &a.integration})
      for (const auto& line : *group) want(line);
    if (r_.verify) want(r_.verify->line);
    if (r_.bench) want(r_.bench->line);
    if (r_.calibration) want(r_.calibration->line);
    for (const auto& run : r_.comparisons) want(run.line);
    const ObjectStore store(request_.samples);
    for (const auto& [order, id] : wanted) {
      const auto event = by_id_.find(id);
      if (event == by_id_.end()) continue;
      const LedgerEvent& e = *event->second;
      const std::string samples = text_in(record_of(e), "samples_file");
      r_.lines.push_back({e.created_at, e.event_type, e.status, e.git_commit, text_in(record_of(e), "lab_version"), e.id, samples,
                          e.git_dirty, !samples.empty() && store.find(samples).ok()});
    }
  }

  const ReportRequest& request_;
  std::map<std::string, const LedgerEvent*> by_id_;
  EvidenceReport r_;
};

}  // namespace

EvidenceReport gather_report(const ReportRequest& request) { return Gatherer(request).gather(); }

}  // namespace kl
