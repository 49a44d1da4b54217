// Each save is judged by the verbs themselves, in a process that the next save ends: what they record
// is what a user's own verify and bench would.
#include "command.hpp"
#include "session.hpp"

#include <lab/bench/bench.hpp>
#include <lab/core/clock.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/process.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/file_watch.hpp>
#include <lab/flow/watch_log.hpp>
#include <lab/report/bench_text.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verdict.hpp>
#include <lab/report/verify_text.hpp>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

namespace kl::app {
namespace {

// Ctrl-C, as something that can be waited for.
class StopSignal {
 public:
  StopSignal() {
    if (::pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) return;
    for (const int signal : {SIGINT, SIGTERM}) {
      struct sigaction action {};
      action.sa_handler = [](int) {
        [[maybe_unused]] const ssize_t written = ::write(ends_[1], "", 1);
        requested_ = 1;
      };
      ::sigaction(signal, &action, nullptr);
    }
  }
  static int fd() { return ends_[0]; }
  static bool requested() { return requested_ != 0; }

 private:
  static inline int ends_[2] = {-1, -1};
  static inline volatile sig_atomic_t requested_ = 0;
};

struct Flags {
  std::string workspace, preset, device;
};

class Watcher {
 public:
  Watcher(Context& context, const Flags& flags, Session session, FileWatch watch)
      : context_(context), flags_(flags), session_(std::move(session)), watch_(std::move(watch)) {}

  Result<Answer> run() {
    context_.say(fmt::format("watching {} ({}, preset {}); Ctrl-C ends it\n", session_.kernel().string(), session_.target.key,
                    session_.preset.empty() ? "none" : session_.preset));
    while (!stop_.requested()) {
      KL_CHECK(judge_present());
      // A save that cut a round short is waited for as well: it may not be over.
      if (watch_.wait(stop_.fd()) == FileWatch::Event::folder_gone) return folder_gone();
    }
    return ending();
  }

 private:
  Error folder_gone() const {
    return make_error(Status::invalid_workspace, fmt::format("{} is gone", flags_.workspace),
                      "make the workspace anew; every source that was judged is in `kernel-lab ledger show`");
  }

  // The present source, unless it was the last one judged.
  Outcome judge_present() {
    std::error_code code;
    const auto hash = sha256_file(session_.kernel());
    if (!hash.ok()) {
      if (!fs::is_directory(session_.workspace.folder, code)) return folder_gone();
      if (!told_missing_)
        context_.say(fmt::format("\n{} cannot be read: waiting for it to come back\n", session_.kernel().string()));
      told_missing_ = true;
      judged_.clear();
      return {};
    }
    told_missing_ = false;
    if (*hash == judged_) return {};
    judged_ = *hash;
    return judge();
  }

  // A round that a newer save cut short is not kept.
  Outcome judge() {
    WatchRound round;
    round.at = utc_now();
    round.kernel = judged_;
    context_.say(fmt::format("\n{}  {}\n", context_.style.bold(round.at.substr(11, 8)), judged_.substr(0, 12)));
    KL_TRY(const auto verified, ask({"verify", "--workspace", flags_.workspace, "--quick"}));
    if (!verified) return {};
    KL_CHECK(take_verify(*verified, round));
    if (round.verify == Status::ok && !session_.shapes.empty()) {
      KL_TRY(const auto benched, ask({"bench", "--workspace", flags_.workspace, "--quick"}));
      if (!benched) return {};
      KL_CHECK(take_bench(*benched, round));
    } else if (round.verify == Status::ok) {
      round.bench_says = fmt::format("not timed: {} has no shape in the trainer", session_.target.key);
      context_.say("  bench    " + round.bench_says + "\n");
    }
    rounds_.push_back(std::move(round));
    context_.say(table());
    return {};
  }

  Outcome take_verify(const Json& json, WatchRound& round) {
    if (json.value("schema", "") != VerifyRecord::kSchema) {
      round.verify = status_from_string(json.value("status", "")).value_or(Status::error);
      round.verify_says = json.value("reason", "");
    } else {
      KL_TRY(const VerifyRecord record, from_json<VerifyRecord>(json));
      round.verify = record.status;
      round.verify_says = verify_sentence(record);
      context_.say(compile_lines(context_.style, record.compile));
    }
    context_.say(fmt::format("  verify   {}: {}\n", context_.style.status(round.verify), round.verify_says));
    return {};
  }

  Outcome take_bench(const Json& json, WatchRound& round) {
    if (json.value("schema", "") != BenchRecord::kSchema) {
      round.bench = status_from_string(json.value("status", "")).value_or(Status::error);
      round.bench_says = json.value("reason", "");
    } else {
      KL_TRY(const BenchRecord record, from_json<BenchRecord>(json));
      round.bench = record.status;
      round.bench_says = bench_sentence(record);
      round.ratio = record.ratio;
    }
    context_.say(fmt::format("  bench    {}: {}\n", context_.style.status(*round.bench), round.bench_says));
    return {};
  }

  // The verb's record; nothing when a save or Ctrl-C came first.
  Result<std::optional<Json>> ask(const std::vector<std::string>& verb) {
    kl::Command command;
    command.arguments = {(Installation::find().bin / "kernel-lab").string(), "--json", "--ledger",
                         context_.ledger.string()};
    auto& arguments = command.arguments;
    if (context_.engine_chosen) arguments.insert(arguments.end(), {"--engine", std::string(context_.engine->name())});
    std::error_code code;
    for (const auto& folder : context_.target_path)
      if (fs::is_directory(folder, code)) arguments.insert(arguments.end(), {"--targets", folder.string()});
    arguments.insert(arguments.end(), verb.begin(), verb.end());
    if (!session_.preset.empty()) arguments.insert(arguments.end(), {"--preset", session_.preset});
    if (!flags_.device.empty()) arguments.insert(arguments.end(), {"--device", flags_.device});
    command.timeout_seconds = 3600;
    command.output_limit_bytes = size_t{64} << 20;
    command.cancelled = [this] { return stop_.requested() || saved_again(); };
    KL_TRY(const Finished finished, run_process(command));
    if (finished.cancelled) return std::optional<Json>();
    auto record = parse_json(finished.out, "kernel-lab " + verb.front());
    if (!record.ok())
      return make_error(Status::error, fmt::format("`kernel-lab {}` gave no record: {}", verb.front(), finished.err),
                        "run it by itself to see why");
    return std::optional(std::move(*record));
  }

  // Saved with the same content is not saved again.
  bool saved_again() {
    if (!watch_.touched()) return false;
    const auto hash = sha256_file(session_.kernel());
    const bool same = hash.ok() && *hash == judged_;
    if (same) watch_.forget();
    return !same;
  }

  std::string table() const {
    constexpr size_t kShown = 8;
    const auto best = best_round(rounds_);
    Table table({">save", "kernel", "verify", "bench", ">against the champion", ""});
    for (size_t i = 0; i < rounds_.size(); ++i) {
      const WatchRound& round = rounds_[i];
      if (rounds_.size() - i > kShown && best != i) continue;
      table.row({std::to_string(i + 1), round.kernel.substr(0, 12), std::string(to_string(round.verify)),
                 round.bench ? std::string(to_string(*round.bench)) : "–",
                 round.ratio > 0 ? fmt::format("{:.3f}", round.ratio) : "–", best == i ? "best so far" : ""});
    }
    return "\n" + table.text(context_.style);
  }

  Answer ending() const {
    WatchRecord record = new_record<WatchRecord>();
    record.engine = context_.engine->name();
    record.target = session_.target.key;
    record.preset = session_.preset;
    record.workspace = flags_.workspace;
    record.status = Status::ok;
    record.rounds = rounds_;
    const auto best = best_round(rounds_);
    if (best) record.best = rounds_[*best].kernel;
    Answer answer;
    answer.record = to_json(record);
    answer.text = fmt::format("\n{} save{} judged{}\n", rounds_.size(), rounds_.size() == 1 ? "" : "s",
                              best ? fmt::format(", best {} at {:.3f} of the champion", record.best.substr(0, 12),
                                                 rounds_[*best].ratio)
                                   : "");
    if (best && record.best != judged_)
      answer.next = command_line(context_, fmt::format("restore --workspace {} {}", shell_word(flags_.workspace),
                                                       record.best.substr(0, 12)));
    return answer;
  }

  Context& context_;
  const Flags& flags_;
  Session session_;
  FileWatch watch_;
  StopSignal stop_;
  std::vector<WatchRound> rounds_;
  std::string judged_;  // hash of the source last judged, or begun to be
  bool told_missing_ = false;
};

}  // namespace

Command command_watch() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "watch";
  command.summary = "verify and bench on every save; best so far";
  command.examples = {"watch --workspace mine", "watch --workspace mine --preset cpu-balanced"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--workspace", flags->workspace, "workspace folder")->required()->type_name("DIR");
    app.add_option("--preset", flags->preset, "trainer operating point whose shapes are checked and timed")->type_name("NAME");
    app.add_option("--device", flags->device, "auto, cpu, cuda or an index")->type_name("DEVICE");
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    if (!flags->device.empty()) KL_CHECK(require_device(context, flags->device));
    KL_TRY(Session session, open_session(context, flags->workspace, flags->preset));
    KL_TRY(FileWatch watch, FileWatch::open(session.kernel()));
    return Watcher(context, *flags, std::move(session), std::move(watch)).run();
  };
  return command;
}

}  // namespace kl::app
