#include "man_page.hpp"
#include "records.hpp"

#include <CLI/CLI.hpp>

namespace kl::app {

// The build prints it, so that an example that does not parse fails the build.
Command command_man() {
  Command command;
  command.name = "man";
  command.summary = "the manual page of all verbs, in troff, on stdout";
  command.examples = {"man > kernel-lab.1   (man -l kernel-lab.1 shows it)"};
  command.run = [](Context&) -> Result<Answer> {
    KL_CHECK(check_examples(all_commands()));
    GeneratedText record = new_record<GeneratedText>();
    record.status = Status::ok;
    record.form = "man";
    record.text = man_page(flag_table());
    Answer answer;
    answer.record = to_json(record);
    answer.text = record.text;
    return answer;
  };
  return command;
}

}  // namespace kl::app
