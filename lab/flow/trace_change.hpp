// What changed between the last two traces of a preset, from their records alone.
#pragma once

#include <lab/flow/assess.hpp>
#include <lab/trace/diff.hpp>

#include <optional>
#include <span>
#include <string>

namespace kl {

struct TraceChange {
  std::string before_at, after_at;  // UTC, of the trace-profiles
  std::string before_id, after_id;  // of their ledger lines
  trace::TraceDiff diff;
};

// Of the newest trace-profile that the assessment shows for its own machine class, stale ones included, and the newest
// before it of the same class and of another trace; empty: there are no two. `events` are oldest first.
std::optional<TraceChange> newest_trace_change(std::span<const LedgerEvent> events, const Assessment& assessment);

}  // namespace kl
