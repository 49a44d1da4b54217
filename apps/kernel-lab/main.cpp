// kernel-lab: global flags, then one verb.
#include "command.hpp"
#include "progress_bar.hpp"
#include "records.hpp"

#include <apps/command_line/usage.hpp>
#include <lab/core/clock.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/shell.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace kl::app {
namespace {

struct GlobalFlags {
  std::string engine;
  bool list_engines = false;
  std::vector<std::string> targets;
  std::string ledger;
  std::string output;
  std::string color = "auto";
  bool json = false;
  bool quiet = false;
};

void print_error(const Error& error, bool json, const Style& style) {
  if (json) {
    ErrorRecord record = new_record<ErrorRecord>();
    record.status = error.status;
    record.reason = error.what;
    record.remedy = error.remedy;
    fmt::print("{}\n", dump_line(to_json(record)));
    return;
  }
  std::string what = error.what;
  while (!what.empty() && what.back() == '\n') what.pop_back();
  fmt::print(stderr, "{} {}\n", style.bad(fmt::format("kernel-lab: {}:", to_string(error.status))), what);
  if (!error.remedy.empty()) fmt::print(stderr, "  {} {}\n", style.bold("→"), error.remedy);
}

// Repository root above the working directory, else the working directory.
fs::path project_root() {
  std::error_code code;
  const fs::path here = fs::current_path(code);
  for (fs::path folder = here; !folder.empty(); folder = folder.parent_path()) {
    if (fs::exists(folder / ".git", code)) return folder;
    if (folder == folder.root_path()) break;
  }
  return here;
}

void add_global_flags(CLI::App& app, GlobalFlags& flags) {
  app.add_option("--engine", flags.engine, "kernel substrate: cpu, cuda … (default: what this machine has)")
      ->type_name("NAME");
  app.add_flag("--list-engines", flags.list_engines, "every engine of this build, and whether it can run here");
  app.add_option("--targets", flags.targets, "folder of targets, searched first; repeatable")
      ->type_name("DIR")->allow_extra_args(false);
  app.add_option("--ledger", flags.ledger, "ledger file (default results/kernel_lab/ledger.jsonl)")
      ->type_name("PATH");
  app.add_option("--output", flags.output, "write the record (or the report that --format asks for) there and print the path alone")->type_name("FILE");
  app.add_flag("--json", flags.json, "one JSON object on stdout, nothing else");
  app.add_flag("--quiet", flags.quiet, "no progress and no notes");
  app.add_option("--color", flags.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))->type_name("WHEN");
}

Answer list_engines(const Style& style) {
  Answer answer;
  EngineList record = new_record<EngineList>();
  record.status = Status::ok;
  for (const Engine* engine : all_engines()) {
    const auto usable = engine->usable();
    EngineLine line{std::string(engine->name()), Status::ok, "", ""};
    if (!usable.ok()) line = {line.engine, usable.error().status, usable.error().what, usable.error().remedy};
    record.engines.push_back(line);
    answer.text += fmt::format("  {:<6} {}\n", engine->name(),
                               usable.ok() ? style.good("ok")
                                           : fmt::format("{}: {} ({})", style.status(line.status), line.reason,
                                                         line.remedy));
  }
  answer.record = to_json(record);
  return answer;
}

int print_answer(const Answer& answer, const GlobalFlags& flags, const Style& style) {
  if (!flags.output.empty()) {
    const std::string content = answer.is_document ? answer.text : dump_pretty(answer.record) + "\n";
    if (auto written = write_file_atomic(flags.output, content); !written.ok()) {
      print_error(written.error(), flags.json, style);
      return static_cast<int>(exit_code_of(written.error().status));
    }
    fmt::print("{}\n", flags.output);
  } else if (flags.json) {
    fmt::print("{}\n", dump_line(answer.record));
  } else {
    fmt::print("{}", answer.text);
    if (!answer.next.empty()) fmt::print("{} {}\n", style.bold("next:"), answer.next);
  }
  if (std::fflush(stdout) != 0) return static_cast<int>(ExitCode::internal);
  return static_cast<int>(answer.exit_code);
}

// Those examples that have these words.
std::string examples_text(const std::vector<std::string>& examples, const std::string& words) {
  std::string text = "Examples:";
  for (const auto& example : examples)
    if ((example + " ").find(words + " ") != std::string::npos) text += "\n  kernel-lab " + example;
  return text;
}

// Help shows the defaults that are values: not those of lists that begin empty.
void forget_empty_defaults(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_default_str() == "[]") option->default_str("");
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) forget_empty_defaults(*verb);
}

// Flags, verbs and their parser: as long as one is used, the others must live.
struct Parser {
  GlobalFlags flags;
  std::vector<Command> commands = all_commands();
  CLI::App app{"Does this kernel earn a place in the training run?", "kernel-lab"};
  std::map<const CLI::App*, const Command*> by_app;

  Parser() {
    app.require_subcommand(0, 1);
    app.option_defaults()->always_capture_default();
    app.set_version_flag("--version", std::string(kLabVersion));
    app.footer("Examples:\n  kernel-lab tour\n  kernel-lab init --target rmsnorm --workspace mine\n"
               "  kernel-lab verify --workspace mine\n\n`kernel-lab VERB --help` shows a verb's flags and examples.");
    add_global_flags(app, flags);
    for (const auto& command : commands) {
      CLI::App* sub = app.add_subcommand(command.name, command.summary);
      sub->fallthrough();
      if (command.flags) command.flags(*sub);
      sub->footer(examples_text(command.examples, ""));
      for (CLI::App* own : sub->get_subcommands([](const CLI::App*) { return true; }))
        own->footer(examples_text(command.examples, command.name + " " + own->get_name()));
      by_app[sub] = &command;
    }
    forget_empty_defaults(app);
  }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
};

// Asked for on this line, before the words that are another program's.
bool wants_json(int argc, char** argv) {
  char** const end = std::find(argv + 1, argv + argc, std::string_view("--"));
  return std::find(argv + 1, end, std::string_view("--json")) != end;
}

int run(int argc, char** argv, bool json) {
  Parser parser;
  GlobalFlags& flags = parser.flags;
  CLI::App& app = parser.app;

  const auto wants_color = [&](int fd) {
    if (flags.color != "auto") return flags.color == "always";
    return ::isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr;
  };
  // Known before parsing, so that a line that cannot be parsed is answered in the form asked for.
  flags.json = json;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    print_error(usage_error(app, error), flags.json, Style{wants_color(STDERR_FILENO)});
    return static_cast<int>(ExitCode::usage);
  }

  const Style out{!flags.json && flags.output.empty() && wants_color(STDOUT_FILENO)};
  const Style err{wants_color(STDERR_FILENO)};
  if (auto given = no_empty_values(app); !given.ok()) {
    print_error(given.error(), flags.json, err);
    return static_cast<int>(ExitCode::usage);
  }
  if (flags.list_engines) return print_answer(list_engines(out), flags, out);
  if (app.get_subcommands().empty()) {
    fmt::print("{}", app.help());
    return static_cast<int>(ExitCode::usage);
  }

  ProgressBar bar(!flags.quiet && !flags.json && ::isatty(STDERR_FILENO) == 1);
  Context context;
  context.json = flags.json;
  context.style = out;
  context.engine_chosen = !flags.engine.empty();
  if (flags.engine.empty()) {
    context.engine = &default_engine();
  } else if (auto found = find_engine(flags.engine); found.ok()) {
    context.engine = *found;
  } else {
    print_error(found.error(), flags.json, err);
    return static_cast<int>(ExitCode::usage);
  }
  std::vector<fs::path> extra;
  for (const auto& folder : flags.targets) {
    std::error_code code;
    if (!fs::is_directory(folder, code)) {
      print_error(make_error(Status::usage, fmt::format("--targets {}: {}", folder, code ? code.message() : "not a folder"), "check the path"),
                  flags.json, err);
      return static_cast<int>(ExitCode::usage);
    }
    extra.push_back(fs::absolute(folder));
  }
  context.target_path = target_search_path(extra);
  context.ledger = flags.ledger.empty() ? project_root() / "results" / "kernel_lab" / "ledger.jsonl"
                                        : fs::absolute(flags.ledger);
  if (context.engine_chosen) context.global_flags += " --engine " + flags.engine;
  for (const auto& folder : flags.targets) context.global_flags += " --targets " + shell_word(folder);
  if (!flags.ledger.empty()) context.global_flags += " --ledger " + shell_word(flags.ledger);
  context.progress = [&bar](const ProgressStep& step) { bar.draw(step); };
  context.say = [&](std::string_view text) {
    bar.clear();
    if (flags.json || !flags.output.empty()) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  context.note = [&](std::string_view text) {
    bar.clear();
    if (!flags.quiet) fmt::print(stderr, "{} {}\n", err.dim("·"), text);
  };

  const int64_t begun_ns = monotonic_ns();
  auto answer = parser.by_app.at(app.get_subcommands().front())->run(context);
  bar.clear();
  if (!answer.ok()) {
    print_error(answer.error(), flags.json, err);
    return static_cast<int>(exit_code_of(answer.error().status));
  }
  // Of verbs that measure nothing, the verb's own time.
  if (Json& seconds = answer->record["wall_seconds"]; seconds == 0.0)
    seconds = static_cast<double>(monotonic_ns() - begun_ns) * 1e-9;
  return print_answer(*answer, flags, out);
}

}  // namespace

std::shared_ptr<CLI::App> flag_parser() {
  const auto parser = std::make_shared<Parser>();
  return {parser, &parser->app};
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const auto& command : all_commands()) names.push_back(command.name);
  return names;
}

}  // namespace kl::app

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const bool json = kl::app::wants_json(argc, argv);
  const auto failed = [json](const std::string& what, const std::string& remedy) {
    kl::app::print_error(kl::make_error(kl::Status::error, what, remedy), json, kl::Style{false});
    return static_cast<int>(kl::ExitCode::internal);
  };
  try {
    return kl::app::run(argc, argv, json);
  } catch (const std::filesystem::filesystem_error& error) {
    return failed(error.what(), "check the path");
  } catch (const std::exception& error) {
    return failed(std::string("internal error: ") + error.what(), "please report it with the command line");
  }
}
