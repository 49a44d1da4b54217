#include "flag_table.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace kl::app {
namespace {

// CLI11 writes a choice as "WHEN:{auto,always,never}" and other checks as "INT:POSITIVE".
FlagLine flag_line(const CLI::Option& option) {
  FlagLine line;
  line.positional = option.get_positional();
  if (line.positional) {
    line.names = {option.get_single_name()};
  } else {
    for (const auto& name : option.get_snames()) line.names.push_back("-" + name);
    for (const auto& name : option.get_lnames()) line.names.push_back("--" + name);
  }
  line.text = option.get_description();
  line.required = option.get_required();
  if (option.get_items_expected_max() == 0) return line;
  const std::string type = option.get_type_name();
  line.type = type.substr(0, type.find(':'));
  if (const size_t open = type.find(":{"); open != std::string::npos) {
    std::istringstream choices(type.substr(open + 2, type.find('}', open) - open - 2));
    for (std::string choice; std::getline(choices, choice, ',');) line.choices.push_back(choice);
  }
  if (line.type.empty()) line.type = "VALUE";
  return line;
}

VerbLine verb_line(const CLI::App& app) {
  VerbLine line;
  line.name = app.get_name();
  line.summary = app.get_description();
  for (const CLI::Option* option : app.get_options())
    if (option != app.get_help_ptr()) line.flags.push_back(flag_line(*option));
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    line.verbs.push_back(verb_line(*verb));
  return line;
}

// "verify --seed 42   (replays a run)", "man > FILE": without the remark, without what is the shell's.
std::string bare(const std::string& example) {
  const size_t remark = std::min(example.find("  ("), example.find(" > "));
  return example.substr(0, remark == std::string::npos ? example.size() : example.find_last_not_of(' ', remark) + 1);
}

// An example may name files that are not there.
bool only_a_missing_file(const CLI::ParseError& error) {
  return std::string_view(error.what()).find("does not exist") != std::string_view::npos;
}

}  // namespace

std::vector<FlagLine> VerbLine::all_flags() const {
  std::vector<FlagLine> all = flags;
  for (const auto& verb : verbs)
    for (const auto& flag : verb.all_flags())
      if (std::none_of(all.begin(), all.end(), [&](const FlagLine& known) { return known.names == flag.names; }))
        all.push_back(flag);
  return all;
}

FlagTable flag_table() {
  const auto parser = flag_parser();
  VerbLine top = verb_line(*parser);
  FlagTable table{std::move(top.flags), std::move(top.verbs)};
  table.global.insert(table.global.begin(), {{"-h", "--help"}, "", {}, "flags and examples, of a verb when after one", false, false});
  for (const auto& command : all_commands())
    for (auto& verb : table.verbs)
      if (verb.name == command.name) verb.examples = command.examples;
  return table;
}

Outcome check_examples(const std::vector<Command>& commands) {
  for (const auto& command : commands)
    for (const auto& example : command.examples) {
      const auto parser = flag_parser();  // a parser is used once
      try {
        parser->parse(bare(example));
      } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() != 0 && !only_a_missing_file(error))
          return make_error(Status::error, fmt::format("the example `kernel-lab {}` does not parse: {}", example, error.what()),
                            fmt::format("correct it in apps/kernel-lab/commands/{}.cpp", command.name));
      }
    }
  return {};
}

}  // namespace kl::app
