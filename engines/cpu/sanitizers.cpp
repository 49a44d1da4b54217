#include <engines/cpu/sanitizers.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl::cpu {
namespace {

constexpr int kObjected = 86;  // exit code given to both

// The compiler knows where its run-time is; empty when it is not installed.
std::string runtime_library(const std::string& name) {
  const auto asked =
      run_process({.arguments = {"c++", "-print-file-name=" + name}, .timeout_seconds = 20});
  if (!asked.ok() || !asked->ok()) return {};
  const std::string path = asked->out.substr(0, asked->out.find('\n'));
  return std::filesystem::path(path).is_absolute() && std::filesystem::exists(path) ? path
                                                                                    : std::string();
}

std::string first_lines(const std::string& text) {
  constexpr size_t kShown = 1200;
  const size_t start = std::min(text.find("ERROR:"), text.find("runtime error:"));
  return text.substr(start == std::string::npos ? 0 : start, kShown);
}

SanitizerVerdict verdict_of(const Finished& run) {
  if (run.ok()) return {Status::ok, "", "", {}};
  const std::string said = first_lines(run.err);
  if (run.exit_code == kObjected || run.signal != 0) return {Status::rejected, said, "", {}};
  return {run.timed_out ? Status::timed_out : Status::execution_failed, said, "", {}};
}

// `preload`: the run-time that must come first; empty where there is none.
Sanitizer sanitizer(const std::string& name, const std::string& rule, const std::string& preload) {
  return {rule, name,
          [preload](std::vector<std::string> program, const std::filesystem::path&) {
            Command command;
            command.arguments = std::move(program);
            command.environment = {
                {"ASAN_OPTIONS", fmt::format("exitcode={}:detect_leaks=0", kObjected)},
                {"UBSAN_OPTIONS", fmt::format("exitcode={}:print_stacktrace=0", kObjected)}};
            if (!preload.empty()) command.environment["LD_PRELOAD"] = preload;
            return command;
          },
          [](const Finished& run, const std::filesystem::path&) { return verdict_of(run); }};
}

}  // namespace

Result<std::vector<Sanitizer>> sanitizers() {
  const std::string address = runtime_library("libasan.so");
  if (address.empty() || runtime_library("libubsan.so").empty())
    return make_error(Status::missing_tool,
                      "the compiler's sanitizer run-times (libasan, libubsan) are not installed",
                      "install libasan and libubsan of the compiler that c++ names");
  return std::vector<Sanitizer>{sanitizer("address", "address-sanitizer", address),
                                sanitizer("undefined", "undefined-behaviour", "")};
}

}  // namespace kl::cpu
