#include <apps/command_line/usage.hpp>

#include <lab/core/near.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl::app {
namespace {

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

// The program, the verb, and the verb's own verb, as far as the words reached.
std::vector<const CLI::App*> reached(const CLI::App& app) {
  std::vector<const CLI::App*> path = {&app};
  for (auto used = app.get_subcommands(); !used.empty(); used = path.back()->get_subcommands()) path.push_back(used.front());
  return path;
}

std::string see_help(const CLI::App& app) {
  std::string line = "see";
  for (const CLI::App* part : reached(app)) line += " " + part->get_name();
  return line + " --help";
}

// A word that nothing takes: an unknown flag, an unknown verb, or one too many.
Error stray_word(const CLI::App& app, const std::string& word) {
  const CLI::App& where = *reached(app).back();
  if (word.starts_with('-')) {
    std::vector<std::string> names;
    for (const CLI::App* part : reached(app)) {
      const auto more = option_names(*part);
      names.insert(names.begin(), more.begin(), more.end());
    }
    const std::string flag = word.substr(0, word.find('='));
    return make_error(Status::usage, fmt::format("unknown flag '{}'", flag), suggestion(flag, names));
  }
  const std::vector<std::string> verbs = verb_names(where);
  if (verbs.empty()) return make_error(Status::usage, fmt::format("'{}' is one word too many", word), see_help(app));
  return make_error(Status::usage, fmt::format("unknown verb '{}'", word), suggestion(word, verbs));
}

}  // namespace

Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& where = *reached(app).back();
  const std::vector<std::string> strays = app.remaining(true);
  if (!strays.empty()) return stray_word(app, strays.front());
  const std::vector<std::string> verbs = verb_names(where);
  if (!verbs.empty() && &where != &app)
    return make_error(Status::usage, fmt::format("{} needs a verb of its own", where.get_name()), suggestion("", verbs));
  return make_error(Status::usage, error.what(), see_help(app));
}

Outcome no_empty_values(const CLI::App& app) {
  for (const CLI::App* part : reached(app))
    for (const CLI::Option* option : part->get_options()) {
      if (option->get_items_expected_min() == 0) continue;  // may come without a value
      const auto& values = option->results();
      if (option->get_positional() && values.size() > 1) continue;  // another program's words
      if (std::find(values.begin(), values.end(), "") != values.end())
        return make_error(Status::usage, fmt::format("{} is given an empty value", option->get_name()),
                          "leave it out, or give it a value: is a variable of your script not set?");
    }
  return {};
}

}  // namespace kl::app
