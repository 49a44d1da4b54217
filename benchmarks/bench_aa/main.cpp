// bench_aa: benches a kernel against itself many times and counts verdicts that are false.
//
//   bench_aa --target rmsnorm --axes N=1024,C=256 --calls 9 --runs 40
//   bench_aa --engine cuda --target loss_prelude --axes N=8192,V=8192 --dtype bf16 --runs 60
//
// With --candidate the champion is compared with another source instead. One JSON line per run and
// one for the summary; exit code 3 when a false verdict was given.
#include <lab/bench/bench.hpp>
#include <lab/core/installation.hpp>
#include <lab/stats/rate_bound.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>

namespace {

kl::SeamShape shape_from(const std::string& axes, const std::string& dtype,
                         const std::vector<std::string>& absent, int64_t calls) {
  kl::SeamShape shape;
  shape.dtype = dtype;
  shape.absent = absent;
  for (const char* operation : {"forward", "backward"}) shape.calls_per_step[operation] = calls;
  for (const std::string& item : CLI::detail::split(axes, ',')) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos)
      throw CLI::ValidationError("--axes", item + " is not NAME=LENGTH");
    shape.axes[item.substr(0, equals)] = std::stoll(item.substr(equals + 1));
  }
  return shape;
}

void print_run(int run, const kl::BenchRecord& r) {
  fmt::print("{}\n", kl::dump_line({{"run", run},
                                    {"status", kl::to_string(r.status)},
                                    {"reason", r.reason},
                                    {"proof", r.proof},
                                    {"ratio", r.ratio},
                                    {"t95", kl::to_json(r.t95)},
                                    {"process_sd", r.process_sd},
                                    {"warm_ratio", r.warm_ratio},
                                    {"candidate", kl::to_json(r.candidate)},
                                    {"baseline", kl::to_json(r.baseline_time)},
                                    {"controls", kl::to_json(r.controls)},
                                    {"clocks", kl::to_json(r.clock_agreement)},
                                    {"blocks", r.blocks},
                                    {"calls_checked", r.calls_checked},
                                    {"stolen_cpu_share", r.clocks.stolen_cpu_share.value_or(NAN)},
                                    {"wall_seconds", r.wall_seconds}}));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Benches a kernel against itself and counts false verdicts.");
  std::string engine_name = "cpu", key = "rmsnorm", mode = "quick", dtype = "f32";
  std::vector<std::string> axes, absent;
  std::vector<int64_t> calls;
  std::filesystem::path candidate;
  int runs = 40;
  app.add_option("--engine", engine_name, "engine to bench on");
  app.add_option("--target", key, "target to bench");
  app.add_option("--axes", axes, "one shape, NAME=LENGTH,…; repeatable")->required();
  app.add_option("--dtype", dtype, "element type");
  app.add_option("--absent", absent, "an optional input that is not passed; repeatable");
  app.add_option("--calls", calls, "calls in one step of each shape");
  app.add_option("--candidate", candidate, "another source to compare with the champion");
  app.add_option("--runs", runs, "number of comparisons");
  app.add_option("--mode", mode, "quick, normal or full")
      ->check(CLI::IsMember({"quick", "normal", "full"}));
  CLI11_PARSE(app, argc, argv);

  const auto engine = kl::find_engine(engine_name);
  const auto target = kl::Catalogue::search(kl::target_search_path({})).find(key);
  if (!engine || !target) {
    fmt::print(stderr, "{}\n", engine ? target.error().what : engine.error().what);
    return 2;
  }
  kl::BenchRequest request;
  request.engine = *engine;
  request.target = &*target;
  request.baseline = target->champion(**engine).value_or(target->reference());
  request.candidate = candidate.empty() ? request.baseline : candidate;
  request.preset = "bench_aa";
  request.mode = mode == "full"     ? kl::BenchMode::full
                 : mode == "normal" ? kl::BenchMode::normal
                                    : kl::BenchMode::quick;
  for (size_t i = 0; i < axes.size(); ++i)
    request.shapes.push_back(shape_from(axes[i], dtype, absent, i < calls.size() ? calls[i] : 1));

  std::map<std::string, int> counts;
  int false_verdicts = 0;
  for (int run = 0; run < runs; ++run) {
    const kl::BenchRecord record = kl::bench(request);
    print_run(run, record);
    ++counts[std::string(kl::to_string(record.status))];
    false_verdicts +=
        record.status != kl::Status::equivalent && record.status != kl::Status::inconclusive;
  }
  if (!candidate.empty()) return 0;
  fmt::print("{}\n",
             kl::dump_line({{"runs", runs},
                            {"counts", counts},
                            {"false_verdicts", false_verdicts},
                            {"rate_below", kl::stats::rate_upper_bound(false_verdicts, runs)}}));
  return false_verdicts == 0 ? 0 : 3;
}
