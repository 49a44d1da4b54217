// Every status a record can carry, and the one table that maps it to an exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kl {

enum class Status : uint8_t {
  ok,
  mismatch,
  improved,
  regressed,
  equivalent,
  inconclusive,
  suspect,
  rejected,
  missing_runtime,
  missing_tool,
  no_permission,
  invalid_workspace,
  unsupported_target,
  usage,
  build_failed,
  load_failed,
  execution_failed,
  timed_out,
  validated,
  mixed,
  needs_integration_adapter,
  starter_unavailable,
  capture_unavailable,
  capture_failed,
  insufficient_trace_data,
  missing_profiler_summary,
  insufficient_metrics,
  profile_failed,
  promoted,
  patch_ready,
  refused,
  unstable,
  error,
};

// Process exit codes: 0 done, 1 internal error, 2 usage, 3 negative verdict, 4 inconclusive,
// 5 unavailable here.
enum class ExitCode : int { done = 0, internal = 1, usage = 2, negative = 3, undecided = 4, unavailable = 5 };

struct StatusRow {
  Status status;
  std::string_view name;
  ExitCode exit_code;  // of bench, verify and every verb without an entry of its own
};

std::span<const StatusRow> status_table();
std::string_view to_string(Status status);
std::optional<Status> status_from_string(std::string_view name);
// `equivalent` is positive for bench and negative for integration verbs.
ExitCode exit_code_of(Status status, bool integration = false);

}  // namespace kl
