#include <lab/engine/host_compiler.hpp>

#include <lab/core/files.hpp>
#include <lab/core/process.hpp>
#include <lab/engine/one_file.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace kl {
namespace {

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

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (from.empty() || from == to) return text;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The folders the compiler names between these two lines of `-v`.
std::vector<fs::path> search_folders(const std::string& verbose) {
  std::istringstream lines(verbose);
  std::vector<fs::path> folders;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#include <...>")) inside = true;
    if (line.starts_with("End of search list")) break;
    if (inside && line.starts_with(' ')) folders.emplace_back(line.substr(1));
  }
  return folders;
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
    const auto verbose = run_process({.arguments = {candidate, "-x", "c++", "-E", "-v", "/dev/null"},
                                      .environment = {{"LC_ALL", "C"}},
                                      .timeout_seconds = 30});
    if (verbose.ok()) compiler.search_folders_ = search_folders(verbose->err);
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
  if (gcc) arguments.insert(arguments.end(), {"-fopt-info-vec-optimized", "-fno-canonical-system-headers"});
  std::vector<fs::path> permitted = search_folders_;
  for (const auto& folder : request.include_dirs) {
    permitted.push_back(fs::absolute(folder));
    arguments.insert(arguments.end(), {"-isystem", permitted.back().string()});
  }
  KL_TRY(const TemporaryFolder work, TemporaryFolder::create("kernel-lab-compile"));
  const fs::path headers = work.path() / "headers.d", assembled = work.path() / "assembled.d";
  const std::string source = fs::absolute(request.source).string();
  const std::string shown = request.shown_as.empty() ? source : request.shown_as.string();
  arguments.insert(arguments.end(), {"-MD", "-MF", headers.string(), "-Werror=date-time",
                                     "-ffile-prefix-map=" + fs::path(source).parent_path().string() + "/="});
  if (gcc) arguments.push_back("-Wa,--MD," + assembled.string());
  arguments.insert(arguments.end(), {"-o", fs::absolute(request.output).string(), source});
  KL_TRY(const Finished run, run_process({.arguments = arguments,
                                          .environment = {{"LC_ALL", "C"}, {"TMPDIR", work.path().string()}},
                                          .folder = work.path(),
                                          .timeout_seconds = 300}));
  const std::string said = replaced(run.err, source, shown);
  if (!run.ok()) {
    std::string message = trimmed_message(said);
    if (run.timed_out) message = "the compiler did not finish in 300 s\n";
    if (run.signal != 0) message = fmt::format("the compiler was killed by signal {}\n{}", run.signal, message);
    return make_error(Status::build_failed,
                      fmt::format("{} does not compile:\n{}", shown, message),
                      "correct the source and run the same command again");
  }
  permitted.insert(permitted.end(), {source, work.path()});
  for (const fs::path& rule : {headers, assembled}) {
    if (rule == assembled && !gcc) continue;
    if (const auto outside = read_from_outside(rule, work.path(), permitted))
      return reads_another_file(shown, *outside);
  }
  return CompileReport{version_, std::move(flags), vectorisation_notes(said, shown),
                       run.wall_seconds};
}

}  // namespace kl
