#include <lab/integration/trainer_client.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/near.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

namespace kl {
namespace {

constexpr double kQuestionSeconds = 60;

// A program given by name is searched in PATH, as run_process does.
fs::path resolve(const fs::path& program) {
  std::error_code code;
  if (program.has_parent_path()) return fs::exists(program, code) ? fs::absolute(program) : program;
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, end)) / program;
    if (fs::is_regular_file(candidate, code)) return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return program;
}

template <class T>
Result<std::vector<T>> read_list(const Json& answer, const char* key, const fs::path& program) {
  const auto it = answer.find(key);
  if (it == answer.end() || !it->is_array())
    return make_error(Status::execution_failed,
                      fmt::format("{} answered without a list of {}", program.string(), key),
                      "compare its answer with docs/trainer-protocol.md");
  std::vector<T> list;
  for (const auto& item : *it) {
    auto value = from_json<T>(item);
    if (!value)
      return make_error(Status::execution_failed,
                        fmt::format("{}: in its {}, {}", program.string(), key, value.error().what),
                        "compare its answer with docs/trainer-protocol.md");
    list.push_back(std::move(*value));
  }
  return list;
}

}  // namespace

std::vector<TrainerPreset> presets_by_strength(std::vector<TrainerPreset> presets, std::string_view engine,
                                               std::string_view family) {
  std::erase_if(presets, [&](const TrainerPreset& preset) {
    return preset.family != family || (preset.device && *preset.device != engine);
  });
  std::stable_sort(presets.begin(), presets.end(),
                   [](const TrainerPreset& a, const TrainerPreset& b) { return a.strength < b.strength; });
  return presets;
}

std::optional<TrainerPreset> next_stronger(const std::vector<TrainerPreset>& presets, const TrainerPreset& preset,
                                           std::string_view engine) {
  for (const TrainerPreset& other : presets_by_strength(presets, engine, preset.family))
    if (other.strength > preset.strength) return other;
  return std::nullopt;
}

std::map<std::string, int64_t> TrainerSeam::calls_per_step() const {
  std::map<std::string, int64_t> calls;
  for (const auto& shape : shapes)
    for (const auto& [operation, count] : shape.calls_per_step) calls[operation] += count;
  return calls;
}

TrainerClient::TrainerClient(fs::path program, std::vector<std::string> arguments)
    : program_(resolve(program)), arguments_(std::move(arguments)) {}

fs::path TrainerClient::builtin() { return Installation::find().bin / "kernel-lab-train"; }

Result<Json> TrainerClient::ask(std::vector<std::string> question) const {
  Command command;
  command.arguments = {program_.string()};
  command.arguments.insert(command.arguments.end(), arguments_.begin(), arguments_.end());
  command.arguments.insert(command.arguments.end(), question.begin(), question.end());
  command.timeout_seconds = kQuestionSeconds;
  command.output_limit_bytes = 16u << 20;
  KL_TRY(const auto finished, run_process(command));
  if (!finished.ok())
    return make_error(
        Status::execution_failed,
        fmt::format("{} {}: {}{}", program_.string(), fmt::join(question, " "),
                    finished.timed_out ? fmt::format("no answer in {} s", kQuestionSeconds)
                    : finished.signal != 0 ? fmt::format("died of signal {}", finished.signal)
                                           : fmt::format("exited with code {}", finished.exit_code),
                    finished.err.empty() ? "" : ": " + finished.err.substr(0, 600)),
        "run it by hand; docs/trainer-protocol.md says what it must answer");
  auto answer = parse_json(finished.out, question.front());
  const bool speaks = answer.ok() && answer->is_object() && answer->contains("protocol") && (*answer)["protocol"] == 1;
  if (!speaks)
    return make_error(Status::needs_integration_adapter,
                      fmt::format("{} does not speak version 1 of the trainer protocol: asked for its {}, it said {}", program_.string(), question.front(),
                                  finished.out.empty() ? "nothing" : valid_utf8(finished.out.substr(0, 120))),
                      "docs/trainer-protocol.md describes version 1; `kernel-lab trainer check -- PROGRAM` tries all of it");
  return std::move(*answer);
}

Result<std::vector<TrainerPreset>> TrainerClient::presets() const {
  KL_TRY(const auto answer, ask({"presets"}));
  return read_list<TrainerPreset>(answer, "presets", program_);
}

Result<TrainerPreset> TrainerClient::preset(std::string_view name) const {
  KL_TRY(const auto list, presets());
  std::vector<std::string> names;
  for (const auto& preset : list) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  return make_error(Status::usage, fmt::format("no preset \"{}\"", name), suggestion(name, names));
}

Result<std::vector<TrainerSeam>> TrainerClient::seams(std::string_view preset, const Json& overrides) const {
  std::vector<std::string> question = {"seams", "--preset", std::string(preset)};
  for (const auto& [field, value] : overrides.items()) {
    question.push_back("--set");
    question.push_back(field + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
  KL_TRY(const auto answer, ask(std::move(question)));
  return read_list<TrainerSeam>(answer, "seams", program_);
}

Outcome TrainerClient::can_run(std::string_view name, std::string_view engine) const {
  const auto list = presets();
  if (!list.ok()) {
    if (list.error().status == Status::missing_tool)
      return make_error(Status::missing_tool, list.error().what, "give the path of a program that can be run (chmod +x it, if it is a script)");
    if (list.error().status == Status::needs_integration_adapter) return list.error();
    return make_error(Status::needs_integration_adapter, fmt::format("{} is no trainer: {}", program_.string(), list.error().what),
                      "docs/trainer-protocol.md describes one; `kernel-lab trainer check -- PROGRAM` tries all of it");
  }
  KL_TRY(const TrainerPreset wanted, preset(name));
  if (!wanted.device || *wanted.device == engine) return {};
  std::vector<std::string> here;
  for (const auto& other : *list)
    if (!other.device || *other.device == engine) here.push_back(other.name);
  return make_error(Status::missing_runtime, fmt::format("preset {} runs on engine {}, not on {}", name, *wanted.device, engine),
                    fmt::format("--engine {} where it is usable; presets of {}: {}", *wanted.device, engine, fmt::join(here, ", ")));
}

Outcome TrainerClient::accepts(std::string_view preset, const Json& overrides) const {
  if (overrides.empty()) return {};
  const auto refused = seams(preset, overrides);
  // A trainer that cannot answer without them either has another fault.
  if (refused.ok() || !seams(preset).ok()) return {};
  constexpr std::string_view kEnded = "exited with code ";
  std::string words = refused.error().what;
  if (const size_t ended = words.find(kEnded); ended != std::string::npos)
    if (const size_t begin = words.find(": ", ended); begin != std::string::npos) words.erase(0, begin + 2);
  const size_t line = words.find('\n');
  std::string rest = line == std::string::npos ? "" : words.substr(line);
  rest.erase(0, rest.find_first_not_of(" \n"));
  while (!rest.empty() && rest.back() == '\n') rest.pop_back();
  return make_error(Status::usage, fmt::format("--set: {}", words.substr(0, line)),
                    rest.empty() ? fmt::format("{} seams --preset {} tells what it takes", program_.string(), preset) : rest);
}

Result<TrainerPath> TrainerClient::path(std::string_view preset, const Json& overrides,
                                        std::string_view seam) const {
  TrainerPath path;
  KL_TRY(auto listed, seams(preset, overrides));
  Json settings = overrides;
  for (const TrainerSeam& known : listed)
    if (known.seam == seam && !known.on_path()) path.opened_by = *known.opened_by;
  if (!path.opened_by.empty()) {
    for (const auto& [field, value] : path.opened_by) settings[field] = value;
    KL_TRY(listed, seams(preset, settings));
  }
  for (TrainerSeam& known : listed)
    if (known.on_path()) path.seams.push_back(std::move(known));
  if (!path.opened_by.empty() && path.find(seam) == nullptr)
    return make_error(Status::execution_failed,
                      fmt::format("{} says what opens seam {} in preset {}, and then does not run it",
                                  program_.string(), seam, preset),
                      "compare its answer with docs/trainer-protocol.md");
  return path;
}

const TrainerSeam* TrainerPath::find(std::string_view seam) const {
  const auto it = std::find_if(seams.begin(), seams.end(), [&](const TrainerSeam& s) { return s.seam == seam; });
  return it == seams.end() ? nullptr : &*it;
}

Result<std::string> TrainerClient::identity(const TrainerPreset& preset) const {
  KL_TRY(const auto program_hash, sha256_file(program_));
  return sha256_fields({program_hash, dump_line(to_json(preset))});
}

Result<TrainerRun> TrainerClient::run(const TrainerPlan& plan, double timeout_seconds) const {
  KL_TRY(const auto scratch, TemporaryFolder::create("kernel-lab-leg"));
  const fs::path plan_file = scratch.path() / "plan.json";
  const fs::path events = scratch.path() / "events.jsonl";
  KL_CHECK(write_file_atomic(plan_file, dump_pretty(plan_json(plan, events))));

  Command command;
  command.arguments = {program_.string()};
  command.arguments.insert(command.arguments.end(), arguments_.begin(), arguments_.end());
  command.arguments.insert(command.arguments.end(), {"--plan", plan_file.string()});
  command.folder = scratch.path();
  command.timeout_seconds = timeout_seconds;
  // A forced core would measure another library than the one this machine runs.
  command.unset = {"OPENBLAS_CORETYPE"};
  KL_TRY(const auto finished, run_process(command));

  std::error_code code;
  TrainerRun run;
  if (fs::exists(events, code)) {
    KL_TRY(const auto stream, read_file(events));
    run = read_events(stream);
  }
  add_process(run, finished);
  return run;
}

}  // namespace kl
