#include "completion_script.hpp"
#include "records.hpp"

#include <CLI/CLI.hpp>

namespace kl::app {

Command command_completions() {
  auto shell = std::make_shared<std::string>();
  Command command;
  command.name = "completions";
  command.summary = "completion script of a shell, on stdout";
  command.examples = {"completions bash > ~/.local/share/bash-completion/completions/kernel-lab",
                      "completions zsh > ~/.zfunc/_kernel-lab", "completions fish > ~/.config/fish/completions/kernel-lab.fish"};
  command.flags = [shell](CLI::App& app) {
    app.add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  };
  command.run = [shell](Context&) -> Result<Answer> {
    const FlagTable table = flag_table();
    GeneratedText record = new_record<GeneratedText>();
    record.status = Status::ok;
    record.form = *shell;
    record.text = *shell == "bash" ? bash_completion(table) : *shell == "zsh" ? zsh_completion(table) : fish_completion(table);
    Answer answer;
    answer.record = to_json(record);
    answer.text = record.text;
    return answer;
  };
  return command;
}

}  // namespace kl::app
