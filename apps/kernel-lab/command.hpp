// A verb: its flags, its help and its handler. Each file in commands/ defines one; the table of all
// of them is generated from that folder.
#pragma once

#include <lab/core/files.hpp>
#include <lab/core/json.hpp>
#include <lab/core/progress.hpp>
#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>
#include <lab/report/style.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace kl::app {

// What every verb is given: the global flags, resolved.
struct Context {
  const Engine* engine = nullptr;
  bool engine_chosen = false;  // by --engine
  std::string global_flags;    // those to repeat in a next command: " --targets DIR --ledger PATH"
  std::vector<fs::path> target_path;
  fs::path ledger;             // its folder also holds objects/ and samples/
  bool json = false;
  Style style;                 // of stdout
  Progress progress;           // draws on stderr when it is a terminal, else empty
  // Text for people on stdout as it comes, before the answer's; nothing under --json and --output.
  std::function<void(std::string_view)> say;
  std::function<void(std::string_view)> note;  // a line for people, on stderr

  fs::path results() const { return ledger.parent_path(); }
  ObjectStore objects() const { return ObjectStore(results() / "objects"); }
  ObjectStore samples() const { return ObjectStore(results() / "samples"); }
};

// What a verb answers: one record, the same thing for people, and the next command.
struct Answer {
  Json record;
  std::string text;
  std::string next;  // a command line, printed last; empty when there is none
  bool is_document = false;  // --output takes the text instead of the record
  ExitCode exit_code = ExitCode::done;
};

struct Command {
  std::string name;
  std::string summary;                // one line
  std::vector<std::string> examples;  // command lines, without "kernel-lab"
  std::function<void(CLI::App&)> flags;
  std::function<Result<Answer>(Context&)> run;
};

// All verbs, in the order of their file names.
std::vector<Command> all_commands();
std::vector<std::string> command_names();

// The parser with every flag of every verb, to look at or to try a line on.
std::shared_ptr<CLI::App> flag_parser();

}  // namespace kl::app
