#include <lab/integration/trainer_run.hpp>

#include <fmt/format.h>

#include <cmath>

namespace kl {
namespace {

// Fields of another type count as absent: one odd field must not cost the whole event.
double number(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<double>() : std::nan("");
}
int64_t integer(const Json& json, const char* key) {
  const double value = number(json, key);
  return std::isfinite(value) && std::fabs(value) < 9e18 ? static_cast<int64_t>(value) : 0;
}
std::string text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}
bool flag(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_boolean() && it->get<bool>();
}
Json object(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_object() ? *it : Json::object();
}

TrainerStart read_start(const Json& event) {
  TrainerStart start;
  start.config = object(event, "config");
  start.fingerprint = object(event, "fingerprint");
  const Json libraries = object(event, "libraries");  // named: a range-for does not keep it alive
  for (const auto& [seam, library] : libraries.items())
    if (library.is_object())
      start.libraries[seam] = {text(library, "path"), text(library, "source_hash"),
                               text(library, "library_hash")};
  start.parameters = integer(event, "parameters");
  start.tokens_per_step = integer(event, "tokens_per_step");
  start.threads = static_cast<int>(integer(event, "threads"));
  return start;
}

SeamCalls read_calls(const Json& json) {
  SeamCalls calls;
  for (const auto& [operation, count] : json.items())
    if (count.is_number_integer()) calls[operation] = count;
  return calls;
}

TrainerStep read_step(const Json& event) {
  TrainerStep step;
  step.index = integer(event, "index");
  step.warmup = flag(event, "warmup");
  step.ns = number(event, "ns");
  step.device_ns = number(event, "device_ns");
  step.tokens = number(event, "tokens");
  step.loss = number(event, "loss");
  step.grad_norm = number(event, "grad_norm");
  const Json seams = object(event, "seams");
  for (const auto& [seam, calls] : seams.items())
    if (calls.is_object())
      step.seams[seam] = {read_calls(object(calls, "calls")), number(calls, "ns")};
  return step;
}

// A time exactly, which a double would not hold.
int64_t nanoseconds(const Json& json) { return json.is_number_integer() ? json.get<int64_t>() : -1; }

TrainerRanges read_ranges(const Json& event) {
  TrainerRanges step;
  step.step = integer(event, "step");
  step.begin_ns = nanoseconds(event.value("begin_ns", Json()));
  step.end_ns = nanoseconds(event.value("end_ns", Json()));
  step.dropped = integer(event, "dropped");
  const Json names = event.value("names", Json()), ranges = event.value("ranges", Json());
  for (const Json& name : names)
    if (name.is_string()) step.names.push_back(name.get<std::string>());
  for (const Json& range : ranges) {
    const bool triple = range.is_array() && range.size() == 3;
    const int64_t name = triple ? nanoseconds(range[0]) : -1, begin = triple ? nanoseconds(range[1]) : -1,
                  duration = triple ? nanoseconds(range[2]) : -1;
    const int64_t whole = step.end_ns - step.begin_ns;
    if (name < 0 || name >= static_cast<int64_t>(step.names.size()) || begin < 0 || duration < 0 || begin > whole ||
        duration > whole - begin)
      ++step.dropped;
    else
      step.ranges.push_back({static_cast<uint32_t>(name), step.begin_ns + begin, duration});
  }
  return step;
}

void read_event(const Json& event, TrainerRun& run) {
  const std::string kind = text(event, "event");
  if (kind == "start") {
    run.start = read_start(event);
  } else if (kind == "step") {
    run.steps.push_back(read_step(event));
  } else if (kind == "tensors") {
    if (const auto files = event.find("files"); files != event.end() && files->is_array())
      for (const Json& file : *files)
        if (file.is_string()) run.tensor_files.push_back(file.get<std::string>());
  } else if (kind == "ranges") {
    run.ranges.push_back(read_ranges(event));
  } else if (kind == "eval") {
    run.evals.push_back({integer(event, "step"), number(event, "val_bpb"), number(event, "val_loss")});
  } else if (kind == "replay") {
    run.replays.push_back({event.value("weights", Json()), integer(event, "batch"),
                           number(event, "loss"), number(event, "grad_norm"),
                           text(event, "gradient")});
  } else if (kind == "memory") {
    run.memory_peak_bytes = integer(event, "peak_bytes");
  } else if (kind == "finish") {
    run.finished = true;
    run.steps_finished = integer(event, "steps");
    const Json seam_calls = object(event, "seam_calls");
    for (const auto& [seam, calls] : seam_calls.items())
      if (calls.is_object())
        run.seam_calls[seam] = read_calls(object(calls, "calls"));
  } else if (kind == "error") {
    run.error = TrainerError{text(event, "what"), text(event, "remedy")};
  }  // other events belong to later versions of the protocol
}

}  // namespace

TrainerRun read_events(std::string_view stream) {
  TrainerRun run;
  int64_t line_number = 0;
  while (!stream.empty()) {
    const size_t end = std::min(stream.find('\n'), stream.size());
    const std::string_view line = stream.substr(0, end);
    stream.remove_prefix(std::min(end + 1, stream.size()));
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto event = parse_json(line, fmt::format("event line {}", line_number));
    if (event && event->is_object()) {
      read_event(*event, run);
      continue;
    }
    if (run.unreadable_lines++ == 0)
      run.first_unreadable =
          event ? fmt::format("event line {} is not an object", line_number) : event.error().what;
  }
  return run;
}

void add_process(TrainerRun& run, const Finished& process) {
  constexpr size_t kTail = 600;
  run.exit_code = process.exit_code;
  run.signal = process.signal;
  run.timed_out = process.timed_out;
  run.wall_seconds = process.wall_seconds;
  run.error_output =
      process.err.size() > kTail ? process.err.substr(process.err.size() - kTail) : process.err;
}

std::string TrainerRun::why_incomplete() const {
  if (complete()) return {};
  std::string why;
  if (timed_out)
    why = fmt::format("was stopped after {:.0f} s", wall_seconds);
  else if (error)
    why = fmt::format("reported: {}", error->what);
  else if (signal != 0)
    why = fmt::format("died of signal {}", signal);
  else if (exit_code != 0)
    why = fmt::format("exited with code {}", exit_code);
  else
    why = "ended without a `finish` event";
  why += fmt::format(" after {} steps", steps.size());
  if (unreadable_lines > 0)
    why += fmt::format("; {} unreadable lines, the first: {}", unreadable_lines, first_unreadable);
  if (!error && !error_output.empty()) why += "; it printed: " + error_output;
  return why;
}

}  // namespace kl
