#include <lab/core/status.hpp>

#include <array>

namespace kl {
namespace {

using enum ExitCode;
constexpr std::array kTable = {
    StatusRow{Status::ok, "ok", done},
    StatusRow{Status::mismatch, "mismatch", negative},
    StatusRow{Status::improved, "improved", done},
    StatusRow{Status::regressed, "regressed", negative},
    StatusRow{Status::equivalent, "equivalent", done},
    StatusRow{Status::inconclusive, "inconclusive", undecided},
    StatusRow{Status::suspect, "suspect", undecided},
    StatusRow{Status::rejected, "rejected", negative},
    StatusRow{Status::missing_runtime, "missing-runtime", unavailable},
    StatusRow{Status::missing_tool, "missing-tool", unavailable},
    StatusRow{Status::no_permission, "no-permission", unavailable},
    StatusRow{Status::invalid_workspace, "invalid-workspace", usage},
    StatusRow{Status::unsupported_target, "unsupported-target", usage},
    StatusRow{Status::usage, "usage", usage},
    StatusRow{Status::build_failed, "build-failed", negative},
    StatusRow{Status::load_failed, "load-failed", negative},
    StatusRow{Status::execution_failed, "execution-failed", negative},
    StatusRow{Status::timed_out, "timed-out", negative},
    StatusRow{Status::validated, "validated", done},
    StatusRow{Status::mixed, "mixed", negative},
    StatusRow{Status::needs_integration_adapter, "needs-integration-adapter", unavailable},
    StatusRow{Status::starter_unavailable, "starter-unavailable", unavailable},
    StatusRow{Status::capture_unavailable, "capture-unavailable", unavailable},
    StatusRow{Status::capture_failed, "capture-failed", negative},
    StatusRow{Status::insufficient_trace_data, "insufficient-trace-data", unavailable},
    StatusRow{Status::missing_profiler_summary, "missing-profiler-summary", unavailable},
    StatusRow{Status::insufficient_metrics, "insufficient-metrics", unavailable},
    StatusRow{Status::profile_failed, "profile-failed", negative},
    StatusRow{Status::promoted, "promoted", done},
    StatusRow{Status::patch_ready, "patch-ready", done},
    StatusRow{Status::refused, "refused", negative},
    StatusRow{Status::unstable, "unstable", undecided},
    StatusRow{Status::error, "error", internal},
};

}  // namespace

std::span<const StatusRow> status_table() { return kTable; }

std::string_view to_string(Status status) {
  for (const auto& row : kTable)
    if (row.status == status) return row.name;
  return "error";
}

std::optional<Status> status_from_string(std::string_view name) {
  for (const auto& row : kTable)
    if (row.name == name) return row.status;
  return std::nullopt;
}

ExitCode exit_code_of(Status status, bool integration) {
  if (integration && status == Status::equivalent) return negative;
  for (const auto& row : kTable)
    if (row.status == status) return row.exit_code;
  return internal;
}

}  // namespace kl
