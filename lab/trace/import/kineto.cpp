// Chrome trace JSON as PyTorch's profiler (kineto) writes it, plain or gzip.
#include <lab/trace/import/import.hpp>

#include <lab/trace/attribution.hpp>
#include <lab/trace/import/decimal.hpp>
#include <lab/trace/import/finish.hpp>
#include <lab/trace/import/json_cutter.hpp>
#include <lab/trace/import/json_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <unordered_map>

namespace kl::trace {
namespace {

enum class Category : uint8_t {
  kernel,
  copy,
  set,
  call,      // of the runtime or the driver
  sync,      // a wait as the device's track shows it
  op,        // of PyTorch: "aten::addmm"
  annotation,
  overhead,
  ignored,   // Python frames, annotations repeated on the device's track, flow arrows
};

// Old versions capitalise.
Category category_of(std::string_view text) {
  std::string lower(text.substr(0, 32));
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  struct Row {
    std::string_view name;
    Category category;
  };
  static constexpr std::array kTable = {
      Row{"kernel", Category::kernel},         Row{"concurrent_kernel", Category::kernel},
      Row{"gpu_memcpy", Category::copy},       Row{"memcpy", Category::copy},
      Row{"gpu_memset", Category::set},        Row{"memset", Category::set},
      Row{"runtime", Category::call},          Row{"cuda_sync", Category::sync},
      Row{"cpu_op", Category::op},             Row{"operator", Category::op},
      Row{"user_annotation", Category::annotation}, Row{"overhead", Category::overhead},
  };
  for (const Row& row : kTable)
    if (row.name == lower) return row.category;
  return lower.ends_with("_runtime") || lower.ends_with("_driver") ? Category::call : Category::ignored;
}

int64_t integer_or(std::string_view text, int64_t otherwise) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

// "stream 7" of old versions.
int64_t trailing_integer(std::string_view text) {
  const size_t space = text.rfind(' ');
  return integer_or(space == std::string_view::npos ? text : text.substr(space + 1), 0);
}

constexpr int kMicroseconds = 3;  // decimal places to nanoseconds

struct Event {
  Category category = Category::ignored;
  bool complete = false;  // ph X: begin and duration in one
  std::string_view name, pid, tid;
  std::optional<int64_t> begin, duration;
  int64_t device = kNone, stream = kNone, correlation = kNone, external = kNone, bytes = 0, graph_node = kNone;
};

void argument(Event& event, std::string_view key, const JsonValue& value) {
  const auto set = [&](int64_t& to) { to = integer_or(value.text, to); };
  switch (key.empty() ? '\0' : key[0]) {
    case 'd':
      if (key == "device") set(event.device);
      break;
    case 's':
      if (key == "stream") set(event.stream);
      break;
    case 'c':
      if (key == "correlation") set(event.correlation);
      break;
    case 'b':
      if (key == "bytes") set(event.bytes);
      break;
    case 'g':
      if (key == "graph node id") set(event.graph_node);
      break;
    case 'e':
    case 'E':
      if (key == "External id" || key == "external id" || key == "External Id") set(event.external);
      break;
    default: break;
  }
}

class Importer {
 public:
  explicit Importer(std::filesystem::path path) : path_(std::move(path)) { model_.format = "kineto"; }

  Result<TraceModel> read() {
    KL_TRY(ByteStream bytes, ByteStream::open(path_));
    const JsonParts parts{[this](std::string_view path) { return choose(path); },
                          [this](std::string_view path, std::string_view text) { part(path, text); }};
    const std::string broken = cut_json(bytes, parts);
    if (!events_seen_)
      return broken.empty()
                 ? make_error(Status::usage, fmt::format("{} is JSON, but holds no traceEvents", path_.string()),
                              "name the file that the profiler wrote")
                 : make_error(Status::insufficient_trace_data,
                              fmt::format("{} breaks before its first event: {}", path_.string(), broken), "export it again");
    if (!broken.empty())
      model_.gaps.push_back({GapKind::unreadable, 0, fmt::format("{}; read up to event {}", broken, events_)});
    add_left_out(model_, "traceEvents", senseless_, events_);
    waits_without_call();
    find_processes(model_);
    operators_of_activities();
    name_devices();
    add_metadata();
    return finish(std::move(model_), path_);
  }

 private:
  Cut choose(std::string_view path) {
    if (path.empty()) return Cut::enter;
    if (path == "/traceEvents" || path == "/*") events_seen_ = true;
    if (path == "/traceEvents") return Cut::enter;
    if (path == "/traceEvents/*" || path == "/*") return Cut::take;
    constexpr std::array<std::string_view, 11> kWanted = {
        "/schemaVersion",        "/deviceProperties",   "/displayTimeUnit",     "/baseTimeNanoseconds",
        "/traceName",            "/trace_id",           "/cupti_version",       "/cuda_runtime_version",
        "/cuda_driver_version",  "/hip_driver_version", "/hip_runtime_version"};
    return std::find(kWanted.begin(), kWanted.end(), path) != kWanted.end() ? Cut::take : Cut::skip;
  }

  void part(std::string_view path, std::string_view text) {
    if (path.ends_with("/*")) return event(text);
    if (path == "/deviceProperties") return properties(text);
    if (text.size() > 1000) return;
    if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
    metadata_[std::string(path.substr(1))] = json_characters(text, characters_);
  }

  void properties(std::string_view text) {
    json_elements(text, [&](std::string_view device) {
      Device found{kNone, ""};
      json_members(device, [&](std::string_view key, const JsonValue& value) {
        if (key == "id") found.index = integer_or(value.text, kNone);
        if (key == "name") found.name = json_characters(value.text, characters_);
        return true;
      });
      device_names_[found.index] = found.name;
    });
  }

  void event(std::string_view text) {
    ++events_;
    Event event;
    const bool object = json_members(text, [&](std::string_view key, const JsonValue& value) { return member(event, key, value); });
    if (!object) {
      ++senseless_;
      return;
    }
    if (!event.complete || event.category == Category::ignored) return;
    const auto end = event.begin && event.duration ? sum(*event.begin, *event.duration) : std::nullopt;
    const auto span = sensible_span(event.begin, end);
    if (!span) {
      ++senseless_;
      return;
    }
    add(event, *span);
  }

  // False when the rest of the event does not matter.
  static bool member(Event& event, std::string_view key, const JsonValue& value) {
    if (key == "ph") return event.complete = value.text == "X";
    if (key == "cat") {
      event.category = category_of(value.text);
      return event.category != Category::ignored;
    }
    if (key == "name") event.name = value.text;
    else if (key == "pid") event.pid = value.text;
    else if (key == "tid") event.tid = value.text;
    else if (key == "ts") event.begin = scaled_decimal(value.text, kMicroseconds);
    else if (key == "dur") event.duration = scaled_decimal(value.text, kMicroseconds);
    else if (key == "args" && event.category != Category::op)
      json_members(value.text, [&](std::string_view name, const JsonValue& v) {
        argument(event, name, v);
        return true;
      });
    else if (key == "args")
      json_members(value.text, [&](std::string_view name, const JsonValue& v) {
        argument(event, name, v);
        return event.external == kNone;
      });
    return true;
  }

  static std::optional<int64_t> sum(int64_t a, int64_t b) {
    int64_t result = 0;
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  }

  void add(const Event& event, const Span& span) {
    const NameId name = model_.names.id(json_characters(event.name, characters_));
    switch (event.category) {
      case Category::kernel: return activity(event, span, name, ActivityKind::kernel);
      case Category::copy: return activity(event, span, name, ActivityKind::copy);
      case Category::set: return activity(event, span, name, ActivityKind::set);
      case Category::call: return call(event, span, name, call_kind(model_.names[name]));
      case Category::sync:
        waits_.push_back(model_.calls.size());
        return call(event, span, name, model_.names[name] == "Stream Wait Event" ? CallKind::other : CallKind::sync);
      case Category::op:
        ops_.push_back({event.external, span, thread_of(event), name});
        if (model_.names[name].starts_with(kStep)) range(event, span, name);
        return;
      case Category::annotation: return range(event, span, name);
      case Category::overhead: model_.overheads.push_back({span, name}); return;
      case Category::ignored: return;
    }
  }

  void activity(const Event& event, const Span& span, NameId name, ActivityKind kind) {
    DeviceActivity item;
    item.kind = kind;
    item.span = span;
    item.name = name;
    item.device = event.device != kNone ? event.device : trailing_integer(event.pid);
    item.stream = event.stream != kNone ? event.stream : trailing_integer(event.tid);
    item.correlation = event.correlation;
    item.graph_node = event.graph_node;
    item.bytes = std::max<int64_t>(event.bytes, 0);
    model_.activities.push_back(item);
    parents_.push_back(event.external);
  }

  void call(const Event& event, const Span& span, NameId name, CallKind kind) {
    const int64_t thread = thread_of(event);
    model_.calls.push_back({kind, span, name, process_of(thread), thread, event.correlation});
  }

  void range(const Event& event, const Span& span, NameId name) {
    const int64_t thread = thread_of(event);
    const RangeKind kind = model_.names[name].starts_with(kStep) ? RangeKind::step : RangeKind::user;
    model_.ranges.push_back({kind, span, name, process_of(thread), thread});
  }

  static int64_t thread_of(const Event& event) {
    return thread_number(trailing_integer(event.pid) & 0xffffffff, trailing_integer(event.tid));
  }

  // A wait of the device's track repeats a call of the host, unless the calls were not recorded.
  void waits_without_call() {
    if (waits_.empty()) return;
    std::unordered_map<int64_t, size_t> calls;
    std::vector<char> wait(model_.calls.size(), 0);
    for (const size_t i : waits_) wait[i] = 1;
    for (size_t i = 0; i < wait.size(); ++i)
      if (!wait[i] && model_.calls[i].correlation != kNone) calls.emplace(model_.calls[i].correlation, i);
    size_t kept = 0;
    for (size_t i = 0; i < wait.size(); ++i)
      if (!wait[i] || !calls.contains(model_.calls[i].correlation)) model_.calls[kept++] = model_.calls[i];
    model_.calls.resize(kept);
  }

  void operators_of_activities() {
    const auto before = [](const Op& a, const Op& b) { return a.external < b.external; };
    if (!std::is_sorted(ops_.begin(), ops_.end(), before)) std::stable_sort(ops_.begin(), ops_.end(), before);
    bool missing = false;
    for (size_t i = 0; i < parents_.size(); ++i) {
      const auto found = parents_[i] == kNone ? ops_.end() : std::lower_bound(ops_.begin(), ops_.end(), Op{parents_[i], {}, 0, 0}, before);
      if (found != ops_.end() && found->external == parents_[i]) model_.activities[i].op = found->name;
      else missing = true;
    }
    if (missing) operators_around_calls();
  }

  // Without an External id: the innermost operator of the thread in which the call that enqueued it began.
  void operators_around_calls() {
    const auto earlier = [](const Op& a, const Op& b) {
      return std::tuple(a.thread, a.span.begin, b.span.end) < std::tuple(b.thread, b.span.begin, a.span.end);
    };
    std::sort(ops_.begin(), ops_.end(), earlier);
    std::unordered_map<int64_t, size_t> calls;
    for (size_t i = 0; i < model_.calls.size(); ++i)
      if (model_.calls[i].correlation != kNone) calls.emplace(model_.calls[i].correlation, i);
    struct Asking {
      int64_t thread, begin;
      size_t activity;
    };
    std::vector<Asking> asking;
    for (size_t i = 0; i < parents_.size(); ++i) {
      if (model_.activities[i].op != kNoName) continue;
      if (const auto call = calls.find(model_.activities[i].correlation); model_.activities[i].correlation != kNone && call != calls.end())
        asking.push_back({model_.calls[call->second].thread, model_.calls[call->second].span.begin, i});
    }
    std::sort(asking.begin(), asking.end(), [](const Asking& a, const Asking& b) { return std::tie(a.thread, a.begin) < std::tie(b.thread, b.begin); });
    size_t op = 0;
    for (size_t begin = 0, end = 0; begin < asking.size(); begin = end) {
      const int64_t thread = asking[begin].thread;
      std::vector<int64_t> moments;
      for (; end < asking.size() && asking[end].thread == thread; ++end) moments.push_back(asking[end].begin);
      while (op < ops_.size() && ops_[op].thread < thread) ++op;
      const size_t first = op;
      std::vector<Span> spans;
      for (; op < ops_.size() && ops_[op].thread == thread; ++op) spans.push_back(ops_[op].span);
      const std::vector<int64_t> found = innermost(spans, moments);
      for (size_t i = 0; i < found.size(); ++i)
        if (found[i] != kNone) model_.activities[asking[begin + i].activity].op = ops_[first + static_cast<size_t>(found[i])].name;
    }
  }

  // Of all the machine's devices only those that did something belong to this process.
  void name_devices() {
    for (const DeviceActivity& item : model_.activities) {
      const auto same = [&](const Device& device) { return device.index == item.device; };
      if (std::any_of(model_.devices.begin(), model_.devices.end(), same)) continue;
      const auto name = device_names_.find(item.device);
      model_.devices.push_back({item.device, name == device_names_.end() ? "" : name->second});
    }
  }

  void add_metadata() {
    model_.source_version = metadata_.contains("schemaVersion") ? metadata_["schemaVersion"] : "";
    metadata_.erase("schemaVersion");
    model_.metadata = std::move(metadata_);
  }

  static constexpr std::string_view kStep = "ProfilerStep#";
  struct Op {
    int64_t external;
    Span span;
    int64_t thread;
    NameId name;
  };

  const std::filesystem::path path_;
  TraceModel model_;
  std::map<std::string, std::string> metadata_;
  std::map<int64_t, std::string> device_names_;
  std::vector<Op> ops_;
  std::vector<int64_t> parents_;  // by activity: the External id of its operator
  std::vector<size_t> waits_;     // indices of calls
  std::string characters_;
  bool events_seen_ = false;
  int64_t events_ = 0, senseless_ = 0;
};

}  // namespace

Result<TraceModel> read_kineto(const std::filesystem::path& path) { return Importer(path).read(); }

}  // namespace kl::trace
