#include <engines/cuda/sanitizers.hpp>

#include <engines/cuda/sanitizer_report.hpp>
#include <engines/cuda/toolkit.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

namespace kl::cuda {
namespace {

constexpr int kObjected = 86;
constexpr size_t kFindingsKept = 10;
constexpr const char* kReinstall =
    "run compute-sanitizer on another CUDA program: it has to work by itself first";

fs::path log_file(const fs::path& folder, const std::string& tool) {
  return folder / (tool + ".log");
}

std::string shown(const SanitizerFinding& f) {
  std::string text = f.kind;
  if (!f.kernel.empty()) text += " in " + f.kernel;
  if (!f.place.empty()) text += " at " + f.place;
  if (!f.detail.empty()) text += ": " + f.detail;
  return text;
}

std::string first_part(const std::string& text) {
  constexpr size_t kShown = 600;
  return text.substr(0, kShown);
}

SanitizerVerdict rejected(const SanitizerReport& report) {
  const size_t count = report.findings.size();
  SanitizerVerdict verdict{Status::rejected, shown(report.findings.front()), "", report.findings};
  if (count > 1) verdict.proof += fmt::format(" (and {} more)", count - 1);
  if (count > kFindingsKept) verdict.findings.resize(kFindingsKept);
  return verdict;
}

SanitizerVerdict verdict_of(const Finished& run, const fs::path& log, const std::string& tool) {
  const auto said = read_file(log);
  const SanitizerReport report = read_sanitizer_report(said.ok() ? *said : "");
  if (!report.findings.empty()) return rejected(report);
  if (report.errors_counted > 0)  // in words this lab does not know
    return {Status::rejected,
            fmt::format("{} counts {} errors: {}", tool, report.errors_counted, first_part(*said)),
            "",
            {}};
  if (run.timed_out)
    return {Status::timed_out,
            fmt::format("{} did not finish in {:.0f} s", tool, run.wall_seconds),
            "verify without --sanitize, or shorten the target's quick cases",
            {}};
  if (run.signal != 0)
    return {Status::execution_failed,
            fmt::format("{} was killed by signal {}", tool, run.signal),
            kReinstall,
            {}};
  if (report.trouble.find("Device not supported") != std::string::npos)
    return {
        Status::missing_runtime,
        "compute-sanitizer cannot watch this device: " + report.trouble,
        "run verify --sanitize on a machine whose driver lets tools in (some containers do not)",
        {}};
  if (!run.ok())
    return {Status::execution_failed,
            fmt::format("the run under {} ended with code {}: {}{}{}", tool, run.exit_code,
                        report.trouble, report.trouble.empty() || run.err.empty() ? "" : "; ",
                        first_part(run.err)),
            kReinstall,
            {}};
  if (!report.summarised)
    return {Status::execution_failed,
            fmt::format("{} ended well and wrote no summary", tool),
            kReinstall,
            {}};
  return {Status::ok, "", "", {}};
}

// What one tool needs beside the common options.
std::vector<std::string> options_of(const std::string& tool) {
  // Padding, so that an access behind an allocation never lies in the next one.
  if (tool == "memcheck") return {"--padding", "4096"};
  return {};
}

}  // namespace

Sanitizer sanitizer_of(const fs::path& program, const std::string& tool) {
  return {tool, "",
          [program, tool](std::vector<std::string> watched, const fs::path& folder) {
            Command command;
            // Errors of the API are the worker's to find. Into a file: what a kernel prints is not
            // read.
            command.arguments = {program.string(),
                                 "--tool",
                                 tool,
                                 "--error-exitcode",
                                 std::to_string(kObjected),
                                 "--report-api-errors",
                                 "no",
                                 "--show-backtrace",
                                 "device",
                                 "--print-limit",
                                 "50",
                                 "--log-file",
                                 log_file(folder, tool).string()};
            for (const std::string& option : options_of(tool)) command.arguments.push_back(option);
            command.arguments.insert(command.arguments.end(), watched.begin(), watched.end());
            return command;
          },
          [tool](const Finished& run, const fs::path& folder) {
            return verdict_of(run, log_file(folder, tool), tool);
          }};
}

Result<std::vector<Sanitizer>> sanitizers() {
  const fs::path program = find_program("compute-sanitizer");
  if (program.empty())
    return make_error(
        Status::missing_tool, "compute-sanitizer is neither on PATH nor in the CUDA toolkit",
        "install the toolkit's compute-sanitizer (package cuda-sanitizer), or put it on PATH");
  std::vector<Sanitizer> list;
  for (const char* tool : {"memcheck", "initcheck", "racecheck", "synccheck"})
    list.push_back(sanitizer_of(program, tool));
  return list;
}

}  // namespace kl::cuda
