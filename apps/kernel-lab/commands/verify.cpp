#include "records.hpp"
#include "session.hpp"
#include "verify_run.hpp"

#include <lab/report/verify_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string workspace, preset, device = "auto";
  bool champions = false, quick = false, full = false, sanitize = false;
  std::optional<uint64_t> seed;
};

// verify --champions: every target's champion of this engine, one line each.
Result<Answer> verify_champions(Context& context, const Flags& flags) {
  KL_CHECK(require_usable(context));
  const Catalogue catalogue = Catalogue::search(context.target_path);
  KL_TRY(const std::string preset, choose_preset(context, flags.preset, ""));
  Answer answer;
  VerifyChampions all = new_record<VerifyChampions>();
  all.engine = context.engine->name();
  all.preset = preset;
  all.status = Status::ok;
  for (const auto& target : catalogue.targets()) {
    const auto champion = target.champion(*context.engine);
    if (!champion) continue;
    KL_TRY(auto shapes, seam_shapes(target, preset));
    const VerifyRecord record = run_verify(context, {target, *champion, *champion, preset, shapes, "", flags.full,
                                                     flags.sanitize, flags.seed});
    KL_CHECK(record_verify(context, record, *champion));
    all.records.push_back(record);
    answer.text += fmt::format("  {:<24} {}: {}\n", target.key, context.style.status(record.status),
                               verify_sentence(record));
    if (all.status == Status::ok && record.status != Status::ok) {
      all.status = record.status;
      all.reason = fmt::format("{}: {}", target.key, record.reason);
      all.remedy = record.remedy;
    }
  }
  if (all.records.empty())
    return make_error(Status::starter_unavailable, fmt::format("no target has a champion for {}", context.engine->name()),
                      "see `kernel-lab list-targets`");
  answer.record = to_json(all);
  answer.exit_code = exit_code_of(all.status);
  return answer;
}

}  // namespace

Command command_verify() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "verify";
  command.summary = "is the kernel right? fixed harness, error-model bounds";
  command.examples = {"verify --workspace mine --quick", "verify --workspace mine --full --sanitize",
                      "verify --champions", "verify --workspace mine --seed 42   (replays a recorded run)"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--workspace", flags->workspace, "workspace folder")->type_name("DIR");
    app.add_flag("--champions", flags->champions, "every target's champion, for example after a compiler upgrade");
    auto* quick = app.add_flag("--quick", flags->quick, "the quick case list (default)");
    app.add_flag("--full", flags->full, "the full case list, sanitizers included")->excludes(quick);
    app.add_flag("--sanitize", flags->sanitize, "also under the engine's sanitizers: AddressSanitizer and UBSan, or compute-sanitizer");
    app.add_option("--preset", flags->preset, "trainer operating point whose shapes are checked too")->type_name("NAME");
    app.add_option("--device", flags->device, "auto, cpu, cuda or an index")->type_name("DEVICE");
    app.add_option("--seed", flags->seed, "replays the inputs of a recorded run")->type_name("N");
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    KL_CHECK(require_device(context, flags->device));
    if (flags->champions) return verify_champions(context, *flags);
    KL_TRY(const Session session, open_session(context, flags->workspace, flags->preset));
    KL_TRY(const fs::path champion, champion_source(context, session.target));
    const VerifyRecord record =
        run_verify(context, {session.target, session.kernel(), champion, session.preset, session.shapes,
                             session.workspace.folder.string(), flags->full, flags->sanitize, flags->seed});
    KL_CHECK(record_verify(context, record, session.kernel()));
    Answer answer;
    answer.record = to_json(record);
    answer.text = verify_text(record, context.style);
    answer.exit_code = exit_code_of(record.status);
    const std::string workspace = flags->workspace;
    if (record.status == Status::ok && session.target.seam.empty())
      answer.next = command_line(context, fmt::format("promotion-check --target {} --workspace {}",
                                                      session.target.key, workspace));
    else if (record.status == Status::ok)
      answer.next = command_line(context, fmt::format("bench --workspace {} --quick", workspace));
    else if (record.status == Status::mismatch || record.status == Status::rejected)
      answer.next = command_line(context, fmt::format("verify --workspace {} --seed {}", workspace, record.seed)) +
                    "   (after mending the kernel)";
    return answer;
  };
  return command;
}

}  // namespace kl::app
