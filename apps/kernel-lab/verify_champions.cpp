#include "verify_champions.hpp"

#include "records.hpp"
#include "session.hpp"
#include "verify_run.hpp"

#include <lab/build/builder.hpp>
#include <lab/core/clock.hpp>
#include <lab/core/hash.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <lab/flow/evidence.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/verify_text.hpp>
#include <lab/verify/harness_hash.hpp>

#include <fmt/format.h>

namespace kl::app {
namespace {

struct Champion {
  const Target& target;
  fs::path source;
  std::string preset;
};

std::vector<Champion> champions(const Context& context, const std::vector<Target>& targets, const std::string& preset,
                                const std::string& preset_flag) {
  std::vector<Champion> found;
  for (const auto& target : targets)
    if (const auto source = target.champion(*context.engine))
      found.push_back({target, *source, target.seam.empty() ? preset_flag : preset});
  return found;
}

// What a verify of this champion would be bound to now.
Result<Identity> identity_of(const Context& context, const Champion& champion, const std::vector<SeamShape>& shapes, bool full) {
  KL_TRY(const BuiltLibrary built, Builder(*context.engine).build({.source = champion.source}));
  const Target target = champion.target.for_engine(context.engine->name());
  Identity now;
  now.kernel = now.baseline = built.source_hash;
  now.flags = built.flags_hash;
  now.harness = harness_identity(target);
  now.case_plan = plan_cases(target, shapes, full, kLargestWholeCase).hash();
  now.fingerprint_class = fingerprint_class(*context.engine).hash();
  return now;
}

// The newest verify of this very thing, when it passed and tried as much as is asked for.
Result<std::optional<VerifyRecord>> passed_before(const Context& context, const Champion& champion,
                                                  const std::vector<SeamShape>& shapes, const ChampionsRun& run) {
  const auto now = identity_of(context, champion, shapes, run.full);
  if (!now.ok()) return std::optional<VerifyRecord>();  // verify itself says why
  KL_TRY(const LedgerReading reading,
         Ledger(context.ledger).query({.target = champion.target.key, .engine = std::string(context.engine->name()),
                                       .kernel = now->kernel, .event_types = {"verify"}}));
  std::optional<VerifyRecord> newest;
  for (const auto& event : reading.events) {
    if (!is_current(event, *now)) continue;
    const auto record = from_json<VerifyRecord>(event.details.value("record", Json::object()));
    if (record.ok() && (!run.sanitize || record->details.contains("sanitize"))) newest = *record;
  }
  if (newest && newest->status != Status::ok) newest.reset();
  return newest;
}

Result<VerifyRecord> judge(const Context& context, const Champion& champion, const ChampionsRun& run, bool& judged) {
  KL_TRY(const auto shapes, seam_shapes(champion.target, champion.preset));
  if (run.resume) {
    KL_TRY(auto before, passed_before(context, champion, shapes, run));
    judged = !before;
    if (before) return std::move(*before);
  }
  const VerifyRecord record = run_verify(context, {champion.target, champion.source, champion.source, champion.preset,
                                                   shapes, "", run.full, run.sanitize, run.seed});
  KL_CHECK(record_verify(context, record, champion.source));
  return record;
}

// One that could not even be judged.
VerifyRecord unjudged(const Context& context, const Champion& champion, const Error& error) {
  VerifyRecord record = new_record<VerifyRecord>();
  record.engine = context.engine->name();
  record.target = champion.target.key;
  record.preset = champion.preset;
  record.status = error.status;
  record.reason = error.what;
  record.remedy = error.remedy;
  return record;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Result<Answer> verify_champions(Context& context, const ChampionsRun& run) {
  KL_CHECK(require_usable(context));
  const Catalogue catalogue = Catalogue::search(context.target_path);
  std::vector<Target> targets = catalogue.targets();
  if (!run.target.empty()) {
    KL_TRY(const Target target, catalogue.find(run.target));
    KL_TRY([[maybe_unused]] const fs::path source, champion_source(context, target));
    targets = {target};
  }
  KL_TRY(const std::string preset, choose_preset(context, run.preset, ""));
  const auto all_of_them = champions(context, targets, preset, run.preset);
  if (all_of_them.empty())
    return make_error(Status::starter_unavailable, fmt::format("no target has a champion for {}", context.engine->name()),
                      "see `kernel-lab list-targets`");

  VerifyChampions all = new_record<VerifyChampions>();
  all.engine = context.engine->name();
  all.preset = preset;
  all.status = Status::ok;
  Answer answer;
  size_t passed = 0;
  for (const auto& champion : all_of_them) {
    bool judged = true;
    const int64_t begun_ns = monotonic_ns();
    auto result = judge(context, champion, run, judged);
    const VerifyRecord record = result.ok() ? std::move(*result) : unjudged(context, champion, result.error());
    const double seconds = static_cast<double>(monotonic_ns() - begun_ns) * 1e-9;
    context.say(fmt::format("  {:<26} {:>8}  {}: {}\n", champion.target.key,
                            judged ? duration_text(seconds) : "on file", context.style.status(record.status),
                            first_line(verify_sentence(record))));
    if (!judged) all.on_file.push_back(champion.target.key);
    all.records.push_back(record);
    const ExitCode code = exit_code_of(record.status);
    passed += code == ExitCode::done ? 1 : 0;
    // A negative verdict outweighs a champion that could not be judged; else the first one counts.
    if (code != ExitCode::done && answer.exit_code != ExitCode::negative &&
        (answer.exit_code == ExitCode::done || code == ExitCode::negative)) {
      answer.exit_code = code;
      all.status = record.status;
      all.reason = fmt::format("{}: {}", champion.target.key, record.reason);
      all.remedy = record.remedy;
    }
  }
  answer.record = to_json(all);
  answer.text = fmt::format("{} {} of {} champions on {} pass{}\n", context.style.bold("verdict:"), passed, all_of_them.size(),
                            context.engine->name(),
                            all.status == Status::ok ? "" : fmt::format("; {} {}", context.style.status(all.status), first_line(all.reason)));
  return answer;
}

}  // namespace kl::app
