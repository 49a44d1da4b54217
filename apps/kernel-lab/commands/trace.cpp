#include "session.hpp"

#include <lab/report/trace_text.hpp>
#include <lab/report/verdict.hpp>
#include <lab/trace/chrome.hpp>
#include <lab/trace/import/import.hpp>
#include <lab/trace/store.hpp>
#include <lab/trace/window.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  CLI::App* imported = nullptr;
  CLI::App* summary = nullptr;
  CLI::App* diff = nullptr;
  std::string file, before, after, output, chrome, window;
  bool kernels = false;
};

// "run.pt.trace.json.gz" becomes "run.pt.trace.sqlite".
fs::path stored_name(fs::path file) {
  if (file.extension() == ".gz") file.replace_extension();
  return file.replace_extension(".sqlite");
}

Result<Answer> import(const Context& context, const Flags& flags) {
  const fs::path to = flags.output.empty() ? stored_name(flags.file) : fs::path(flags.output);
  std::error_code code;
  if (fs::exists(to, code) && (fs::equivalent(to, flags.file, code) || flags.output.empty()))
    return make_error(Status::usage, fmt::format("{} exists", to.string()), "name another file with --output");
  KL_TRY(trace::TraceModel model, trace::read_trace(flags.file));
  if (model.format != "kernel-lab") model.metadata["KERNEL_LAB_IMPORTED_FROM"] = model.format;
  KL_CHECK(trace::write_trace(model, to));
  trace::ImportRecord record = trace::describe_import(model);
  record.file = flags.file;
  record.imported = to.string();
  Answer answer;
  answer.record = to_json(record);
  answer.text = import_text(record, context.style);
  answer.exit_code = exit_code_of(record.status);
  return answer;
}

Result<Answer> summary(const Context& context, const Flags& flags) {
  KL_TRY(trace::TraceModel model, trace::read_trace(flags.file));
  if (!flags.window.empty()) KL_CHECK(trace::cut_window(model, flags.window));
  auto record = new_record<trace::SummaryRecord>();
  record.status = trace::describe_import(model).status;
  record.file = flags.file;
  if (const auto preset = model.metadata.find("KERNEL_LAB_PRESET"); preset != model.metadata.end()) record.preset = preset->second;
  if (const auto engine = model.metadata.find("KERNEL_LAB_ENGINE"); engine != model.metadata.end()) record.engine = engine->second;
  record.summary = trace::summarise(model, flags.kernels);
  record.summary.window = flags.window;
  Answer answer;
  answer.record = to_json(record);
  answer.text = summary_text(record.summary, context.style);
  answer.exit_code = exit_code_of(record.status);
  return answer;
}

Result<Answer> diff(const Context& context, const Flags& flags) {
  auto record = new_record<trace::TraceDiffRecord>();
  record.status = Status::ok;
  trace::Summary sides[2];
  const std::string* files[] = {&flags.before, &flags.after};
  for (size_t i = 0; i < 2; ++i) {
    KL_TRY(const trace::TraceModel model, trace::read_trace(*files[i]));
    sides[i] = trace::summarise(model);
    if (const Status status = trace::describe_import(model).status; status != Status::ok && record.status == Status::ok) {
      record.status = status;
      record.reason = fmt::format("{}: {}", *files[i], sides[i].bottleneck.reason);
      record.remedy = "trace a window in which a device works";
    }
  }
  record.diff = trace::diff_summaries(sides[0], sides[1]);
  record.diff.before.file = flags.before;
  record.diff.after.file = flags.after;
  Answer answer;
  answer.record = to_json(record);
  answer.text = diff_text(record.diff, context.style);
  if (record.status != Status::ok) answer.text += verdict_line(context.style, record.status, record.reason, record.remedy);
  answer.exit_code = exit_code_of(record.status);
  return answer;
}

Result<Answer> to_chrome(const Flags& flags) {
  KL_TRY(const trace::TraceModel model, trace::read_trace(flags.file));
  const fs::path file = flags.chrome.empty() ? fs::path(flags.file).replace_extension(".json") : fs::path(flags.chrome);
  std::error_code code;
  if (fs::equivalent(file, flags.file, code))
    return make_error(Status::usage, fmt::format("{} is the trace itself", file.string()), "name another file with --chrome");
  const trace::ChromeTrace chrome = trace::chrome_json(model);
  KL_CHECK(write_file_atomic(file, chrome.json));
  auto record = new_record<trace::ExportRecord>();
  record.status = Status::ok;
  record.file = flags.file;
  record.exported = file.string();
  record.bytes = static_cast<int64_t>(chrome.json.size());
  record.events = chrome.events;
  Answer answer;
  answer.record = to_json(record);
  answer.text = fmt::format("{}: {} events; open it in ui.perfetto.dev\n", record.exported, record.events);
  return answer;
}

}  // namespace

Command command_trace() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "trace";
  command.summary = "what a trace holds and what it lacks; two compared; conversion";
  command.examples = {"trace import run.pt.trace.json.gz", "trace summary results/traces/smoke.sqlite", "trace summary t.sqlite --kernels --json",
                      "trace diff before.sqlite after.pt.trace.json.gz", "trace export t.sqlite --chrome t.json"};
  command.flags = [flags](CLI::App& app) {
    app.require_subcommand(1);
    flags->imported = app.add_subcommand("import", "any tool's trace, known by its content, into the lab's own file");
    flags->imported->add_option("--output", flags->output, "file to write (default: FILE with .sqlite)")->type_name("OUT");
    flags->summary = app.add_subcommand("summary", "devices, seams, families, and what the time went to");
    flags->summary->add_flag("--kernels", flags->kernels, "also every kernel by name");
    flags->summary->add_option("--window", flags->window, "a part of it: steps (3:8) or time (0.5s:2s)")->type_name("FROM:TO");
    flags->diff = app.add_subcommand("diff", "what grew and what shrank from one trace to another");
    flags->diff->add_option("before", flags->before, "a trace")->required()->type_name("A");
    flags->diff->add_option("after", flags->after, "another")->required()->type_name("B");
    flags->diff->fallthrough();
    CLI::App* exported = app.add_subcommand("export", "Chrome's JSON, which Perfetto opens");
    exported->add_option("--chrome", flags->chrome, "file to write (default: FILE with .json)")->type_name("OUT");
    for (CLI::App* sub : {flags->imported, flags->summary, exported}) {
      sub->add_option("file", flags->file, "the trace")->required()->type_name("FILE");
      sub->fallthrough();
    }
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    if (flags->imported->parsed()) return import(context, *flags);
    if (flags->diff->parsed()) return diff(context, *flags);
    return flags->summary->parsed() ? summary(context, *flags) : to_chrome(*flags);
  };
  return command;
}

}  // namespace kl::app
