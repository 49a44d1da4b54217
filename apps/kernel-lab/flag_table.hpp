// Every verb with its flags, read from the parser itself: what the manual and the completions of the
// shells are printed from.
#pragma once

#include "command.hpp"

#include <string>
#include <vector>

namespace kl::app {

struct FlagLine {
  std::vector<std::string> names;  // "--workspace"; of a positional its own name alone
  std::string type;                // "DIR"; empty: takes no value
  std::vector<std::string> choices;
  std::string text;
  bool positional = false;
  bool required = false;

  bool takes_value() const { return !type.empty(); }
};

struct VerbLine {
  std::string name;
  std::string summary;
  std::vector<FlagLine> flags;
  std::vector<VerbLine> verbs;  // of its own: ledger check
  std::vector<std::string> examples;

  // Those of its own verbs too, each name once.
  std::vector<FlagLine> all_flags() const;
};

struct FlagTable {
  std::vector<FlagLine> global;
  std::vector<VerbLine> verbs;
};

FlagTable flag_table();

// Each example line parses, and is one of the verb that shows it or leads to it. The error names it.
Outcome check_examples(const std::vector<Command>& commands);

}  // namespace kl::app
