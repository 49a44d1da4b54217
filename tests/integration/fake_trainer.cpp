// A trainer that trains nothing: it speaks the protocol and reports what a script tells it to, so
// that every verdict of an A/B has a test that does not depend on a clock.
//
//   fake_trainer --script FILE (presets | seams --preset NAME | --plan FILE)
//
// The script names behaviours by the source hash of the library in the seam; "baseline" is the rest.
#include <lab/core/files.hpp>
#include <lab/core/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

namespace {

using kl::Json;

Json read(const std::string& path) {
  auto json = kl::read_json_file(path);
  if (!json) {
    std::cerr << json.error().what << "\n";
    std::exit(2);
  }
  return *json;
}

// So many calls forward, and as many backward.
Json pairs(long calls) { return {{"forward", calls}, {"backward", calls}}; }

Json shape(const Json& script) {
  return {{"axes", {{"N", 8}}}, {"dtype", script.value("dtype", "f32")}, {"scalars", Json::object()},
          {"absent", Json::array()}, {"calls_per_step", pairs(script.value("calls_per_step", 3))}};
}

Json presets(const Json& script) {
  const auto preset = [&](const char* name, int strength) {
    return Json{{"name", name}, {"family", "fake"}, {"strength", strength}, {"description", "nothing"},
                {"parameters", 4}, {"tokens_per_step", 512}, {"turns", script.value("turns", false)}};
  };
  return {{"protocol", 1}, {"presets", {preset("tiny", 1), preset("balanced", 2)}}};
}

// How many runs came before this one: what makes one leg differ from the next.
long runs_before(const Json& script) {
  const std::string file = script.at("counter");
  std::ifstream in(file, std::ios::ate | std::ios::binary);
  const long before = in ? static_cast<long>(in.tellg()) : 0;
  std::ofstream(file, std::ios::app | std::ios::binary) << '.';
  return before;
}

// Where the script says how the preset's own path runs, the seam is shadowed: region=open opens it.
std::string seam_of(const Json& script, const Json& plan) {
  const Json overrides = plan.value("overrides", Json::object());
  if (script.contains("path") && overrides.value("region", "") != "open") return "path";
  return script.value("seam", "seam");
}

class Run {
 public:
  Run(const Json& script, const Json& plan)
      : script_(script),
        plan_(plan),
        seam_(seam_of(script, plan)),
        events_(plan.at("events").get<std::string>(), std::ios::app) {
    const auto& library = plan_.at("libraries").at(seam_);
    const std::string hash = library.at("source_hash");
    arm_ = script.value("baseline", Json::object());
    if (script.contains("arms") && script.at("arms").contains(hash))
      arm_.update(script.at("arms").at(hash));
    if (script.contains("path") && seam_ == "path") arm_.update(script["path"]);
    leg_ = runs_before(script);
    std::mt19937_64 generator(static_cast<unsigned long>(leg_) * 7919u + script.value("noise_seed", 1u));
    noise_ = script.value("leg_noise", 0.001) * std::normal_distribution<double>(0, 1)(generator);
  }

  int replay() {
    if (!script_.value("replay", true)) return error("this trainer does not replay");
    if (script_.value("replays_nothing", false)) return start(), finish(0, 0);
    start();
    const auto& request = plan_.at("replay");
    const auto weights = request.at("weights").size();
    for (size_t k = 0; k < weights; ++k)
      for (const auto& batch : request.at("batches")) {
        const std::string name = std::to_string(k) + "-" + batch.dump() + ".f32";
        const kl::fs::path file = kl::fs::path(request.at("gradients").get<std::string>()) / name;
        const float scale = arm_.value("gradient_scale", 1.0f);
        const float gradient[4] = {3 * scale, 4 * scale, arm_.value("gradient_tilt", 0.0f) + script_.value("gradient_jump", 0.0f) * static_cast<float>(leg_ % 2), 0};
        std::ofstream(file, std::ios::binary)
            .write(reinterpret_cast<const char*>(gradient), sizeof gradient);
        const double floor = script_.value("replay_noise", 0.0) * static_cast<double>(leg_ % 2);
        emit({{"event", "replay"}, {"weights", k}, {"batch", batch},
              {"loss", 9 + arm_.value("loss_offset", 0.0) + floor}, {"grad_norm", 5.0},
              {"gradient", file.string()}});
      }
    return finish(0, 0);
  }

  int train() {
    if (plan_.at("libraries").at(seam_).at("library_hash") == std::string(64, '0') && !script_.value("takes_any_library", false))
      return error("the library is another one");
    const bool perturbed = plan_.contains("perturb");
    if (perturbed && script_.value("perturb", "works") == "refused")
      return error("this trainer does not perturb");
    if (plan_.contains("ranges") && script_.value("ranges", "written") == "refused") return error("this trainer writes no ranges");
    start();
    if (plan_.contains("snapshots") && script_.value("replay", true))
      for (const auto& step : plan_["snapshots"]["steps"])
        std::ofstream(plan_["snapshots"]["folder"].get<std::string>() + "/step-" + step.dump() + ".safetensors")
            << "weights";
    const int warmup = plan_.at("warmup_steps"), steps = plan_.at("steps");
    const int settle = plan_.contains("turns") ? plan_["turns"].at("settle").get<int>() : 0;
    const int timed = plan_.contains("turns") ? plan_["turns"].at("steps").get<int>() : steps;
    const int all = warmup + steps / timed * (settle + timed);
    open_channel();
    const int calls = arm_.value("calls", script_.value("calls_per_step", 3));
    for (int i = 0; i < all; ++i) {
      const int in_turn = i < warmup ? -1 : (i - warmup) % (settle + timed);
      if (in_turn == 0) wait_for_turn();
      if (i == arm_.value("die_at", -1)) std::abort();
      if (i == arm_.value("exit_at", -1)) return 0;
      if (i == arm_.value("hang_at", -1)) hang();
      if (i == arm_.value("garbage_at", -1)) events_ << "{\"event\": \"step\", \"ind\n\x01\xff not json\n";
      if (i == arm_.value("lost_step", -1)) continue;
      emit(step(i, in_turn < settle, calls, perturbed));
      if (records(i - warmup)) emit(ranges(i));
      if (i == arm_.value("nan_at", -1)) return error("the loss is not finite at step " + std::to_string(i));
    }
    wait_for_turn();
    if (!plan_.value("skip_eval", false))
      emit({{"event", "eval"}, {"step", warmup + steps}, {"val_bpb", 2.5}, {"val_loss", 8.0}});
    if (!arm_.value("no_memory", false))
      emit({{"event", "memory"}, {"peak_bytes", arm_.value("peak_bytes", 100'000'000)}});
    return finish(all, static_cast<long>(calls) * all);
  }

 private:
  void open_channel() {
    if (!plan_.contains("turns") || arm_.value("ignores_turns", false)) return;
    const std::string folder = plan_["turns"].at("channel");
    if (folder.empty()) return;
    ask_ = ::open((folder + "/ask").c_str(), O_WRONLY);
    grant_ = ::open((folder + "/grant").c_str(), O_RDONLY);
  }
  void wait_for_turn() {
    char byte = 1;
    if (ask_ >= 0 && (::write(ask_, &byte, 1) != 1 || ::read(grant_, &byte, 1) != 1)) std::exit(7);
    if (ask_ >= 0 && script_.contains("turn_log"))
      std::ofstream(script_["turn_log"].get<std::string>(), std::ios::app)
          << plan_["turns"]["channel"].get<std::string>().back();
  }

  void emit(Json event) {
    event["t_ns"] = 0;
    events_ << event.dump() << std::endl;
  }

  void start() {
    Json libraries = plan_.at("libraries");
    if (arm_.contains("loaded_hash")) libraries[seam_]["library_hash"] = arm_["loaded_hash"];
    const bool moved = leg_ >= script_.value("moves_at_leg", 1L << 40);
    emit({{"event", "start"}, {"config", Json::object()}, {"libraries", libraries},
          {"fingerprint", {{"threads", moved ? 4 : 2}}}, {"parameters", 4},
          {"tokens_per_step", 512}, {"threads", 2}});
  }

  // Steps have 100 us; three calls of the seam and a product fill 90 of them.
  bool records(int timed) const {
    if (!plan_.contains("ranges") || script_.value("ranges", "written") == "ignored" || timed == arm_.value("unrecorded_at", -1)) return false;
    const Json& wanted = plan_["ranges"];
    const int first = wanted.at("first"), count = wanted.at("steps"), every = wanted.value("every", 1);
    return timed >= first && (timed - first) % every == 0 && (timed - first) / every < count;
  }
  Json ranges(int i) const {
    const long begin = 1'000'000L * i;
    return {{"event", "ranges"}, {"step", i}, {"begin_ns", begin}, {"end_ns", begin + 100'000},
            {"names", {seam_ + "/forward", "matmul/2x3x4"}}, {"dropped", 0},
            {"ranges", {{0, 0, 20'000}, {0, 20'000, 20'000}, {1, 40'000, 30'000}, {0, 70'000, 20'000}}}};
  }

  Json step(int i, bool warmup, int calls, bool perturbed) const {
    const double wobble = 1 + 0.01 * ((i % 3) - 1);
    const double extra = script_.value("leg_noise_extra_at", -1) >= 0 &&
                                 leg_ >= script_.value("leg_noise_extra_at", -1)
                             ? 1 + script_.value("leg_noise_extra", 0.0) * ((leg_ / 2) % 2 == 0 ? 1 : -1) *
                                       (leg_ % 2 == 0 ? 1 : -1)
                             : 1;
    double ns = arm_.value("step_ns", 1e8) * std::exp(noise_) * wobble * extra;
    if (i % 25 == 24) ns += arm_.value("stall_ns", 0.0);
    // Another seed, another curve; what a run of one seed always begins with is its own.
    const double seed = script_.value("ignores_seed", false) ? 1 : plan_.value("seed", 1.0);
    double loss = 9 - 0.01 * i + 0.001 * (seed - 1) + script_.value("loss_jump", 0.0) * static_cast<double>(leg_ % 2) + arm_.value("curve_offset", 0.0) * std::sin(i + 1.0);
    if (perturbed && script_.value("perturb", "works") == "works")
      loss += script_.value("perturb_size", 1e-5) * std::sin(i + plan_["perturb"]["seed"].get<double>());
    double norm = 1 + 0.1 * std::sin(i);
    if (i == arm_.value("spike_at", -1)) norm = 50;
    Json json = {{"event", "step"}, {"index", i}, {"warmup", warmup}, {"ns", ns}, {"device_ns", ns},
                 {"tokens", 512}, {"loss", loss}, {"grad_norm", norm},
                 {"seams", {{seam_, {{"calls", pairs(calls)},
                                     {"ns", ns * arm_.value("seam_share", 0.25)}}}}}};
    if (i == arm_.value("nan_at", -1)) json["loss"] = nullptr;
    return json;
  }

  int finish(int steps, long calls) {
    if (arm_.value("no_finish", false)) return 0;
    emit({{"event", "finish"}, {"steps", steps},
          {"seam_calls", {{seam_, {{"calls", {{"forward", calls}, {"backward", calls + arm_.value("extra_backward", 0)}}}}}}}});
    return arm_.value("exit_code", 0);
  }

  int error(const std::string& what) {
    emit({{"event", "error"}, {"what", what}, {"remedy", ""}});
    return 3;
  }

  [[noreturn]] void hang() {
    if (script_.contains("pid_file")) {
      // Renamed into place, so that a reader never sees half a number.
      (void)kl::write_file_atomic(script_["pid_file"].get<std::string>(), std::to_string(::getpid()));
    }
    while (true) ::pause();
  }

  const Json& script_;
  const Json& plan_;
  std::string seam_;
  Json arm_;
  std::ofstream events_;
  int ask_ = -1, grant_ = -1;
  long leg_ = 0;
  double noise_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || std::string(argv[1]) != "--script") return 2;
  const Json script = read(argv[2]);
  const std::string verb = argv[3];
  if (script.contains("answer")) {
    std::cout << script["answer"].get<std::string>();
    return 0;
  }
  if (verb == "presets") {
    std::cout << presets(script).dump() << "\n";
    return 0;
  }
  if (verb == "seams") {
    const std::string seam = script.value("seam", "seam");
    Json entry = {{"seam", seam}, {"target", "fake"}, {"shapes", {shape(script)}}};
    Json list = {entry};
    if (script.contains("path") && (argc < 8 || std::string(argv[7]) != "region=open")) {
      entry["opened_by"] = {{"region", "open"}};
      list = {{{"seam", "path"}, {"target", "fake"}, {"shapes", {shape(script)}}}, entry};
    }
    std::cout << Json{{"protocol", 1}, {"preset", argv[5]}, {"seams", list}}.dump() << "\n";
    return 0;
  }
  if (verb != "--plan" || argc < 5) return 2;
  const Json plan = read(argv[4]);
  Run run(script, plan);
  return plan.at("mode") == "replay" ? run.replay() : run.train();
}
