// Ledger latency: an append at 10 and at N records, and queries over N records (default 1,000,000).
//   ledger_benchmark [N] [FOLDER]
#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/ledger/ledger.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

namespace kl {
namespace {

constexpr std::array kTargets = {
    "rmsnorm",        "activation_pointwise", "loss_prelude",     "matmul_epilogue",
    "fused_mlp",      "attention_prelude",    "value_embed_gate", "rope_qk_fused",
    "logits_softcap", "launch_fusion",        "data_movement",    "optimizer_update"};
constexpr std::array kPresets = {"smoke", "cpu-balanced", "upstream"};
constexpr std::array kTypes = {"verify", "bench", "integration-ab"};

// A line as the verbs write them: a bench's details are about half a kilobyte.
LedgerEvent synthetic_event(int64_t i) {
  const auto n = static_cast<size_t>(i);
  LedgerEvent event;
  event.created_at =
      fmt::format("2026-01-01T00:00:{:02}.{:06}Z", i / 1'000'000 % 60, i % 1'000'000);
  event.git_commit = std::string(40, 'c');
  event.engine = n % 5 == 0 ? "cuda" : "cpu";
  event.backend_family = n % 5 == 0 ? "nvidia" : "native";
  event.target = kTargets[n % kTargets.size()];
  event.preset = kPresets[n / 12 % kPresets.size()];
  event.event_type = kTypes[n / 36 % kTypes.size()];
  event.status = "ok";
  event.metric_name = "time_ratio";
  event.metric_value = 0.9 + 1e-7 * static_cast<double>(i);
  event.workspace = "workspaces/" + event.target;
  const std::string kernel = sha256_hex(std::to_string(i / 1000));
  event.identity = {kernel,
                    std::string(64, '1'),
                    std::string(64, '2'),
                    std::string(64, '3'),
                    std::string(64, '4'),
                    std::string(64, '5'),
                    std::string(64, '6'),
                    "0123456789abcdef"};
  event.details = {{"record",
                    {{"candidate_seconds", 0.001 * static_cast<double>(i % 97)},
                     {"baseline_seconds", 0.01},
                     {"low", 0.91},
                     {"high", 0.95},
                     {"processes", 10},
                     {"samples", std::string(64, '7')},
                     {"reason", "a sentence that says why the verdict is what it is"}}}};
  event.ledger_schema_version = kLedgerSchemaVersion;
  event.id = content_id(event);
  return event;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

Outcome time_appends(const Ledger& ledger, int64_t records) {
  constexpr int kAppends = 50;
  std::vector<double> microseconds;
  for (int i = 0; i < kAppends; ++i) {
    LedgerEvent event = synthetic_event(records + i);
    const int64_t begin = monotonic_ns();
    KL_CHECK(ledger.append(std::move(event)));
    microseconds.push_back(static_cast<double>(monotonic_ns() - begin) * 1e-3);
  }
  fmt::print("append at {:>9} records   median {:8.1f} us   worst of {} {:8.1f} us\n", records,
             median(microseconds), kAppends,
             *std::max_element(microseconds.begin(), microseconds.end()));
  return {};
}

Outcome time_query(const Ledger& ledger, const char* what, const LedgerFilter& filter) {
  std::vector<double> seconds;
  size_t found = 0;
  for (int i = 0; i < 5; ++i) {
    const int64_t begin = monotonic_ns();
    KL_TRY(const LedgerReading reading, ledger.query(filter));
    seconds.push_back(static_cast<double>(monotonic_ns() - begin) * 1e-9);
    found = reading.events.size();
  }
  fmt::print("query {:<42} median {:6.3f} s   worst of 5 {:6.3f} s   {:>7} events\n", what,
             median(seconds), *std::max_element(seconds.begin(), seconds.end()), found);
  return {};
}

Outcome run(int64_t records, const fs::path& folder) {
  const Ledger small(folder / "small.jsonl");
  for (int64_t i = 0; i < 10; ++i) KL_CHECK(small.append(synthetic_event(i)));
  const Ledger big(folder / "big.jsonl");
  {
    std::ofstream out(big.path());
    for (int64_t i = 0; i < records; ++i) out << ledger_line(synthetic_event(i)) << '\n';
    if (!out.flush())
      return make_error(Status::error, "cannot write " + big.path().string(), "free some space");
  }
  fmt::print("{} records, {:.0f} MB\n", records,
             static_cast<double>(fs::file_size(big.path())) * 1e-6);
  ::sync();  // the lines just written must not be on their way to the disk while appends are timed
  KL_CHECK(time_appends(small, 10));
  KL_CHECK(time_appends(big, records));
  KL_CHECK(time_query(big, "one kernel of one target",
                      {.target = "rmsnorm", .kernel = sha256_hex("500")}));
  KL_CHECK(time_query(big, "target + engine + preset, newest 1000",
                      {.target = "rmsnorm", .engine = "cpu", .preset = "smoke", .newest = 1000}));
  KL_CHECK(time_query(big, "target + engine + preset",
                      {.target = "rmsnorm", .engine = "cpu", .preset = "smoke"}));
  return time_query(big, "a target that is not there", {.target = "none"});
}

}  // namespace
}  // namespace kl

int main(int argc, char** argv) {
  const int64_t records = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  std::optional<kl::TemporaryFolder> temporary;
  kl::fs::path folder = argc > 2 ? argv[2] : "";
  if (folder.empty()) {
    temporary = kl::TemporaryFolder::create("kl-ledger-benchmark").value();
    folder = temporary->path();
  }
  const auto outcome = kl::run(std::max<int64_t>(records, 1), folder);
  if (!outcome.ok()) fmt::print(stderr, "{}\n{}\n", outcome.error().what, outcome.error().remedy);
  return outcome.ok() ? 0 : 1;
}
