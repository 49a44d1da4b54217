#include <lab/engine/host_compiler.hpp>

#include <lab/core/process.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <sstream>

namespace kl {
namespace {

constexpr size_t kShownLines = 40;

std::string trimmed_message(const std::string& text) {
  std::istringstream lines(text);
  std::string line, result;
  size_t count = 0;
  while (std::getline(lines, line))
    if (++count <= kShownLines) result += line + "\n";
  if (count > kShownLines) result += fmt::format("… {} more lines\n", count - kShownLines);
  return result;
}

// "file.cpp:12:5: optimized: loop vectorized using 32 byte vectors" of the source's own lines.
std::vector<std::string> vectorisation_notes(const std::string& text, const std::string& source) {
  std::istringstream lines(text);
  std::string line;
  std::vector<std::string> notes;
  while (std::getline(lines, line)) {
    if (!line.starts_with(source) || line.find("optimized:") == std::string::npos) continue;
    const std::string note = line.substr(source.size() + 1);
    if (notes.empty() || notes.back() != note) notes.push_back(note);
  }
  return notes;
}

}  // namespace

Result<HostCompiler> HostCompiler::find() {
  std::vector<std::string> candidates = {"g++", "c++", "clang++"};
  if (const char* chosen = std::getenv("KERNEL_LAB_CXX"); chosen != nullptr && *chosen != '\0')
    candidates = {chosen};
  for (const auto& candidate : candidates) {
    const auto run = run_process({.arguments = {candidate, "--version"}, .timeout_seconds = 30});
    if (!run.ok() || !run->ok()) continue;
    HostCompiler compiler;
    compiler.program_ = candidate;
    compiler.version_ = run->out.substr(0, run->out.find('\n'));
    return compiler;
  }
  return make_error(Status::missing_tool,
                    fmt::format("no C++ compiler: tried {}", fmt::join(candidates, ", ")),
                    "apt-get install g++, or name one in KERNEL_LAB_CXX");
}

Result<CompileReport> HostCompiler::compile(const CompileRequest& request,
                                            std::vector<std::string> flags) const {
  std::vector<std::string> arguments = {program_};
  const bool gcc = program_.find("clang") == std::string::npos;
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  if (gcc) arguments.push_back("-fopt-info-vec-optimized");
  for (const auto& folder : request.include_dirs) {
    arguments.push_back("-isystem");
    arguments.push_back(folder.string());
  }
  arguments.insert(arguments.end(), {"-o", request.output.string(), request.source.string()});
  KL_TRY(const Finished run, run_process({.arguments = arguments,
                                          .environment = {{"LC_ALL", "C"}},
                                          .timeout_seconds = 300}));
  if (!run.ok()) {
    std::string message = trimmed_message(run.err);
    if (run.timed_out) message = "the compiler did not finish in 300 s\n";
    if (run.signal != 0) message = fmt::format("the compiler was killed by signal {}\n{}", run.signal, message);
    return make_error(Status::build_failed,
                      fmt::format("{} does not compile:\n{}", request.source.string(), message),
                      "correct the source and run the same command again");
  }
  return CompileReport{version_, std::move(flags), vectorisation_notes(run.err, request.source.string()),
                       run.wall_seconds};
}

}  // namespace kl
