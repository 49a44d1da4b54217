#include "completion_script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kl::app {
namespace {

// What the value of a flag is, as far as a shell can propose it.
enum class Values { choices, folders, files, targets, engines, free };

Values values_of(const FlagLine& flag) {
  const auto named = [&](std::string_view name) {
    return std::find(flag.names.begin(), flag.names.end(), name) != flag.names.end();
  };
  if (!flag.choices.empty()) return Values::choices;
  if (named("--target") || named("--like")) return Values::targets;
  if (named("--engine")) return Values::engines;
  if (flag.type == "DIR" || named("--workspace")) return Values::folders;
  if (flag.type == "FILE" || flag.type == "PATH" || flag.positional) return Values::files;
  return Values::free;
}

// Keys of the targets of the installation and of ./targets.
constexpr std::string_view kTargetsCommand =
    R"(kernel-lab --json list-targets 2>/dev/null | grep -o '"key":"[^"]*"' | cut -d'"' -f4)";

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const Engine* engine : all_engines()) names.emplace_back(engine->name());
  return names;
}

std::vector<std::string> flag_words(const std::vector<FlagLine>& flags) {
  std::vector<std::string> words;
  for (const auto& flag : flags)
    if (!flag.positional) words.insert(words.end(), flag.names.begin(), flag.names.end());
  return words;
}

std::vector<std::string> verb_words(const std::vector<VerbLine>& verbs) {
  std::vector<std::string> words;
  for (const auto& verb : verbs) words.push_back(verb.name);
  return words;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

std::string single_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// --- bash

std::string bash_values(const FlagLine& flag) {
  switch (values_of(flag)) {
    case Values::choices: return fmt::format("-W '{}'", fmt::join(flag.choices, " "));
    case Values::folders: return "-d";
    case Values::files: return "-f";
    case Values::targets: return fmt::format("-W \"$({})\"", kTargetsCommand);
    case Values::engines: return fmt::format("-W '{}'", fmt::join(engine_names(), " "));
    case Values::free: break;
  }
  return "-W ''";
}

// Lines of `case "$verb:$previous"`, each flag that takes a value.
std::string bash_value_lines(const std::string& verb, const std::vector<FlagLine>& flags) {
  std::string text;
  for (const auto& flag : flags) {
    if (flag.positional || !flag.takes_value()) continue;
    std::vector<std::string> patterns;
    for (const auto& name : flag.names) patterns.push_back(fmt::format("{}:{}", verb, name));
    text += fmt::format("    {}) COMPREPLY=($(compgen {} -- \"$current\")); return ;;\n", fmt::join(patterns, "|"), bash_values(flag));
  }
  return text;
}

}  // namespace

std::string bash_completion(const FlagTable& table) {
  std::vector<std::string> with_value;
  const auto collect = [&](const std::vector<FlagLine>& flags) {
    for (const auto& flag : flags)
      if (!flag.positional && flag.takes_value())
        for (const auto& name : flag.names)
          if (std::find(with_value.begin(), with_value.end(), name) == with_value.end()) with_value.push_back(name);
  };
  std::string values, words;
  collect(table.global);
  for (const auto& verb : table.verbs) {
    const auto flags = verb.all_flags();
    collect(flags);
    values += bash_value_lines(verb.name, flags);
    const bool files = std::any_of(flags.begin(), flags.end(), [](const FlagLine& f) { return f.positional; });
    words += fmt::format("    {}) words='{} {}'{} ;;\n", verb.name, fmt::join(flag_words(flags), " "),
                         fmt::join(verb_words(verb.verbs), " "), files ? "; files=1" : "");
  }
  values += bash_value_lines("*", table.global);
  return fmt::format(R"(# Completion of kernel-lab for bash; printed by `kernel-lab completions bash`.
_kernel_lab() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb= words= files= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      {with_value}) ((++i)) ;;
      -*) ;;
      *) verb=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case "$verb:$previous" in
{values}  esac
  case "$verb" in
    '') words='{verbs}' ;;
{words}  esac
  COMPREPLY=($(compgen -W "$words {global}" -- "$current"))
  if [[ $files && $current != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _kernel_lab kernel-lab
)",
                     fmt::arg("with_value", fmt::join(with_value, "|")), fmt::arg("values", values),
                     fmt::arg("verbs", fmt::join(verb_words(table.verbs), " ")), fmt::arg("words", words),
                     fmt::arg("global", fmt::join(flag_words(table.global), " ")));
}

// --- zsh

namespace {

std::string zsh_text(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) text = replaced(text, special, std::string("\\") + special);
  return text;
}

std::string zsh_values(const FlagLine& flag) {
  switch (values_of(flag)) {
    case Values::choices: return fmt::format("({})", fmt::join(flag.choices, " "));
    case Values::folders: return "_files -/";
    case Values::files: return "_files";
    case Values::targets: return "_kernel_lab_targets";
    case Values::engines: return fmt::format("({})", fmt::join(engine_names(), " "));
    case Values::free: break;
  }
  return " ";
}

std::string zsh_specs(const std::vector<FlagLine>& flags, std::string_view indent) {
  std::string text;
  for (const auto& flag : flags) {
    if (flag.positional) continue;
    for (const auto& name : flag.names) {
      std::string spec = fmt::format("{}[{}]", name, zsh_text(flag.text));
      if (flag.takes_value()) spec += fmt::format(":{}:{}", zsh_text(flag.type), zsh_values(flag));
      text += fmt::format("{}{} \\\n", indent, single_quoted(spec));
    }
  }
  return text;
}

std::string zsh_described(const std::vector<VerbLine>& verbs, std::string_view indent) {
  std::string text;
  for (const auto& verb : verbs)
    text += fmt::format("{}{}\n", indent, single_quoted(verb.name + ":" + replaced(verb.summary, ":", "\\:")));
  return text;
}

}  // namespace

std::string zsh_completion(const FlagTable& table) {
  std::string verbs;
  for (const auto& verb : table.verbs) {
    const auto flags = verb.all_flags();
    verbs += fmt::format("        {})\n          _arguments $global \\\n{}", verb.name, zsh_specs(flags, "            "));
    if (!verb.verbs.empty())
      verbs += fmt::format("            '1:verb:({})' \\\n", fmt::join(verb_words(verb.verbs), " "));
    const auto positional = std::find_if(flags.begin(), flags.end(), [](const FlagLine& f) { return f.positional; });
    verbs += positional == flags.end()
                 ? "            ;;\n"
                 : fmt::format("            '*:{}:{}' ;;\n", positional->names.front(), zsh_values(*positional));
  }
  return fmt::format(R"zsh(#compdef kernel-lab
# Completion of kernel-lab for zsh; printed by `kernel-lab completions zsh`.
_kernel_lab_targets() {{
  local -a keys
  keys=(${{(f)"$({targets})"}})
  compadd -a keys
}}

_kernel_lab() {{
  local state line
  local -a global verbs
  global=( \
{global}  )
  _arguments -C $global '1: :->verb' '*:: :->flags' && return
  case $state in
    verb)
      verbs=(
{described}      )
      _describe verb verbs ;;
    flags)
      case $words[1] in
{verbs}      esac ;;
  esac
}}

if [[ $funcstack[1] == _kernel_lab ]]; then _kernel_lab "$@"; else compdef _kernel_lab kernel-lab; fi
)zsh",
                     fmt::arg("targets", kTargetsCommand), fmt::arg("global", replaced(zsh_specs(table.global, "    "), " \\\n", "\n")),
                     fmt::arg("described", zsh_described(table.verbs, "        ")), fmt::arg("verbs", verbs));
}

// --- fish

namespace {

std::string fish_quoted(const std::string& text) { return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'"; }

std::string fish_values(const FlagLine& flag) {
  switch (values_of(flag)) {
    case Values::choices: return fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
    case Values::folders: return " -x -a '(__fish_complete_directories)'";
    case Values::files: return " -r -F";
    case Values::targets: return " -x -a '(__kernel_lab_targets)'";
    case Values::engines: return fmt::format(" -x -a '{}'", fmt::join(engine_names(), " "));
    case Values::free: break;
  }
  return " -x";
}

std::string fish_lines(const std::vector<FlagLine>& flags, const std::string& condition) {
  std::string text;
  for (const auto& flag : flags) {
    std::string line = "complete -c kernel-lab" + condition;
    if (flag.positional) {
      if (values_of(flag) == Values::files) text += line + " -F\n";
      if (!flag.choices.empty()) text += line + fmt::format(" -a '{}'\n", fmt::join(flag.choices, " "));
      continue;
    }
    for (const auto& name : flag.names)
      line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    text += fmt::format("{}{} -d {}\n", line, flag.takes_value() ? fish_values(flag) : "", fish_quoted(flag.text));
  }
  return text;
}

}  // namespace

std::string fish_completion(const FlagTable& table) {
  std::string text = fmt::format(R"(# Completion of kernel-lab for fish; printed by `kernel-lab completions fish`.
function __kernel_lab_targets
  {}
end
complete -c kernel-lab -f
)", kTargetsCommand);
  text += fish_lines(table.global, "");
  for (const auto& verb : table.verbs) {
    text += fmt::format("complete -c kernel-lab -n __fish_use_subcommand -a {} -d {}\n", verb.name, fish_quoted(verb.summary));
    const std::string seen = fmt::format(" -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const auto& own : verb.verbs)
      text += fmt::format("complete -c kernel-lab{} -a {} -d {}\n", seen, own.name, fish_quoted(own.summary));
    text += fish_lines(verb.all_flags(), seen);
  }
  return text;
}

}  // namespace kl::app
