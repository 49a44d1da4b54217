// What is wrong with a command line, said with near matches and the help to look at.
#pragma once

#include <lab/core/result.hpp>

#include <CLI/CLI.hpp>

namespace kl::app {

// Of a line that CLI11 could not parse.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);

// A line that parses may still give a flag an empty value, as an unset variable of a script does:
// that is no way to leave it out.
Outcome no_empty_values(const CLI::App& app);

}  // namespace kl::app
