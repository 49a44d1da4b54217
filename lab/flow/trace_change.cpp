#include <lab/flow/trace_change.hpp>

#include <lab/flow/profile.hpp>

#include <set>

namespace kl {
namespace {

std::optional<TraceProfileRecord> profile_in(const LedgerEvent& event) {
  const auto found = event.details.find("record");
  if (found == event.details.end() || !found->is_object()) return std::nullopt;
  auto record = from_json<TraceProfileRecord>(*found);
  if (!record.ok() || record->status != Status::ok || record->summary.families.empty()) return std::nullopt;
  return *std::move(record);
}

}  // namespace

std::optional<TraceChange> newest_trace_change(std::span<const LedgerEvent> events, const Assessment& assessment) {
  std::set<std::string> shown;
  for (const auto* group : {&assessment.trace, &assessment.stale})
    for (const auto& line : *group)
      if (line.event_type == "trace-profile") shown.insert(line.id);
  TraceChange change;
  std::optional<TraceProfileRecord> after;
  std::string machine;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (!shown.contains(event->id) || (after && event->identity.fingerprint_class != machine)) continue;
    auto record = profile_in(*event);
    if (!record || (after && record->trace_hash == after->trace_hash)) continue;
    if (!after) {
      change.after_at = event->created_at;
      change.after_id = event->id;
      machine = event->identity.fingerprint_class;
      after = std::move(record);
      continue;
    }
    change.before_at = event->created_at;
    change.before_id = event->id;
    change.diff = trace::diff_summaries(record->summary, after->summary);
    change.diff.before.file = record->trace;
    change.diff.after.file = after->trace;
    return change;
  }
  return std::nullopt;
}

}  // namespace kl
