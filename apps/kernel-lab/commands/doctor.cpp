#include "command.hpp"
#include "records.hpp"

#include <lab/bench/perf_counters.hpp>
#include <lab/core/fingerprint.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/process.hpp>
#include <lab/ledger/ledger.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verdict.hpp>
#include <lab/target/target.hpp>
#include <lab/worker/worker.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <unistd.h>

namespace kl::app {
namespace {

DoctorLine program_line(const std::string& name, std::vector<std::string> command, std::string remedy) {
  const auto run = run_process({.arguments = std::move(command), .timeout_seconds = 20});
  if (!run.ok()) return {name, Status::missing_tool, "", std::move(remedy)};
  return {name, Status::ok, run->out.substr(0, run->out.find('\n')), ""};
}

std::vector<DoctorLine> tool_lines() {
  return {program_line("git", {"git", "--version"}, "apt-get install git: evidence then names its commit"),
          program_line("diff", {"diff", "--version"}, "apt-get install diffutils: promote prints patches with it")};
}

DoctorLine limit_line(const char* name, bool applied, const char* remedy) {
  return {name, applied ? Status::ok : Status::missing_runtime, applied ? "applied" : "not applied",
          applied ? "" : remedy};
}

std::vector<DoctorLine> confinement_lines() {
  auto started = Worker::start({});
  if (const Fault* fault = std::get_if<Fault>(&started))
    return {{"worker", Status::missing_tool, fault->proof, "run ./scripts/setup: it builds kernel-lab-worker"}};
  const Confinement limits = std::get<std::unique_ptr<Worker>>(started)->confinement();
  return {limit_line("landlock", limits.landlock, "needs Linux 5.13 or later with Landlock enabled"),
          limit_line("seccomp", limits.seccomp, "needs a kernel with CONFIG_SECCOMP_FILTER"),
          limit_line("no-new-privs", limits.no_new_privs, "needs Linux 3.5 or later"),
          limit_line("outputs locked at return", limits.outputs_locked, "needs seccomp: late writes are then found by comparing again")};
}

DoctorLine counters_line() {
  const PerfCounters counters(static_cast<int>(::getpid()), hardware_events());
  DoctorLine line{"hardware counters", Status::ok, "", ""};
  for (const auto& reading : counters.read()) {
    line.found += (line.found.empty() ? "" : ", ") + reading.name;
    // One that was opened and never ran is there.
    if (reading.value || reading.remedy.empty() || reading.missing.find("while calls ran") != std::string::npos) continue;
    const bool permission = reading.missing.starts_with("not permitted");
    return {line.name, permission ? Status::no_permission : Status::missing_runtime, reading.name + ": " + reading.missing,
            reading.remedy + "; deep-profile gives a roofline without them"};
  }
  return line;
}

// What makes times worse or fewer, and stops nothing.
std::vector<DoctorLine> timing_lines() {
  std::vector<DoctorLine> lines = {counters_line()};
  const std::string governor = current_session().governor;
  const bool steady = governor == "performance" || governor == "unknown";
  lines.push_back({"frequency governor", steady ? Status::ok : Status::inconclusive, governor,
                   steady ? "" : "cpupower frequency-set -g performance: clocks then move less while kernels are timed"});
  double load = 0;
  const bool known = ::getloadavg(&load, 1) == 1;
  const bool quiet = !known || load < 0.5 * usable_cores();
  lines.push_back({"load", quiet ? Status::ok : Status::inconclusive,
                   known ? fmt::format("{:.2f} in the last minute, {} cores", load, usable_cores()) : "unknown",
                   quiet ? "" : "end what else runs before you time: verdicts come out inconclusive, not wrong"});
  return lines;
}

// Where results go: it can be written, and what is left there.
DoctorLine results_line(const Context& context) {
  const fs::path folder = fs::absolute(context.results());
  fs::path existing = folder;
  std::error_code code;
  while (!existing.empty() && !fs::exists(existing, code) && existing != existing.parent_path()) existing = existing.parent_path();
  const fs::space_info space = fs::space(existing, code);
  if (code) return {"results", Status::no_permission, folder.string() + ": " + code.message(), "give --ledger FILE in a folder of yours"};
  const double gib = static_cast<double>(space.available) / (1u << 30);
  const std::string found = fmt::format("{}: {:.1f} GiB free", folder.string(), gib);
  if (::access(existing.c_str(), W_OK) != 0)
    return {"results", Status::no_permission, folder.string() + ": cannot be written", "give --ledger FILE in a folder of yours"};
  if (gib < 0.5) return {"results", Status::inconclusive, found, "free some space, or give --ledger FILE elsewhere: builds, samples and traces go there"};
  return {"results", Status::ok, found, ""};
}

std::vector<DoctorLine> file_lines(const Context& context) {
  std::vector<DoctorLine> lines;
  const Installation installation = Installation::find();
  std::error_code code;
  for (const char* program : {"kernel-lab-worker", "kernel-lab-train"})
    lines.push_back(fs::exists(installation.bin / program, code)
                        ? DoctorLine{program, Status::ok, (installation.bin / program).string(), ""}
                        : DoctorLine{program, Status::missing_tool, "", "run ./scripts/setup"});
  const Catalogue catalogue = Catalogue::search(context.target_path);
  lines.push_back({"targets", catalogue.targets().empty() ? Status::missing_tool : Status::ok,
                   fmt::format("{} found", catalogue.targets().size()),
                   catalogue.targets().empty() ? "give --targets DIR" : ""});
  for (const auto& error : catalogue.broken()) lines.push_back({"target", error.status, error.what, error.remedy});
  const auto corpus = fs::exists("/usr/share/dictd/gcide.dict.dz", code);
  lines.push_back({"default corpus", corpus ? Status::ok : Status::missing_tool, corpus ? "dict-gcide" : "",
                   corpus ? "" : "apt-get install dict-gcide, or give the trainer a corpus of your own"});
  lines.push_back(results_line(context));
  const auto health = Ledger(context.ledger).query({.newest = 1});
  if (!health.ok()) {
    lines.push_back({"ledger", health.error().status, health.error().what, health.error().remedy});
  } else {
    const bool clean = health->health.clean();
    lines.push_back({"ledger", clean ? Status::ok : Status::inconclusive,
                     fmt::format("{}: {} lines", context.ledger.string(), health->health.lines),
                     clean ? "" : "kernel-lab ledger check"});
  }
  return lines;
}

}  // namespace

Command command_doctor() {
  Command command;
  command.name = "doctor";
  command.summary = "engines, tools and limits: what works, what does not, and the exact remedy";
  command.examples = {"doctor", "--engine cuda doctor", "doctor --json"};
  command.run = [](Context& context) -> Result<Answer> {
    DoctorRecord record = new_record<DoctorRecord>();
    record.engine = context.engine->name();
    record.status = Status::ok;
    for (const Engine* engine : all_engines())
      if (!context.engine_chosen || engine == context.engine)
        record.sections["engine " + std::string(engine->name())] = engine->doctor();
    record.sections["tools"] = tool_lines();
    record.sections["confinement"] = confinement_lines();
    record.sections["timing"] = timing_lines();
    record.sections["files"] = file_lines(context);

    Answer answer;
    for (const auto& [section, lines] : record.sections) {
      answer.text += context.style.bold(section) + "\n";
      Table table({"", "", "", ""});
      for (const auto& line : lines) {
        table.row({line.name, context.style.status(line.status), line.found,
                   line.remedy.empty() ? "" : "→ " + line.remedy});
        const bool matters = section == "engine " + record.engine || (!section.starts_with("engine ") && section != "timing");
        if (line.status != Status::ok && matters && record.status == Status::ok) {
          record.status = line.status;
          record.reason = line.name + ": " + (line.found.empty() ? "missing" : line.found);
          record.remedy = line.remedy;
        }
      }
      answer.text += table.text(context.style);
    }
    answer.text += verdict_line(context.style, record.status,
                                record.status == Status::ok ? fmt::format("engine {} can be used here", record.engine) : record.reason,
                                record.remedy);
    answer.record = to_json(record);
    answer.exit_code = exit_code_of(record.status);
    return answer;
  };
  return command;
}

}  // namespace kl::app
