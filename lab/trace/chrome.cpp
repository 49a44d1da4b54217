#include <lab/trace/chrome.hpp>

#include <lab/core/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace kl::trace {
namespace {

// Processes of devices are numbered from here, above any host process.
constexpr int64_t kFirstDevice = 10'000'000;

std::string quoted(const std::string& text) { return dump_line(Json(text)); }

std::string microseconds(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

class Events {
 public:
  explicit Events(const TraceModel& model) : model_(model) {
    for (const Span& span : all_spans()) first_ = std::min(first_, span.begin);
    for (size_t i = 0; i < model.names.size(); ++i) names_.push_back(quoted(model.names[static_cast<NameId>(i)]));
  }

  ChromeTrace json() {
    text_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    // Where host code is the device, its ranges say it all.
    const bool apart = std::none_of(model_.activities.begin(), model_.activities.end(), [](const auto& item) { return item.range != kNone; });
    if (apart) devices();
    for (const Range& range : model_.ranges) host(range.name, to_string(range.kind), range.span, range.thread);
    for (const HostCall& call : model_.calls) host(call.name, to_string(call.kind), call.span, call.thread);
    for (const Overhead& overhead : model_.overheads) event(overhead.name, "overhead", overhead.span, 0, 0);
    text_ += "\n]}\n";
    return {std::move(text_), count_};
  }

 private:
  void devices() {
    for (const Device& device : model_.devices)
      named("process_name", kFirstDevice + device.index, 0, fmt::format("device {} {}", device.index, device.name));
    for (const Stream& stream : model_.streams)
      named("thread_name", kFirstDevice + stream.device, stream.stream,
            stream.name.empty() ? fmt::format("stream {}", stream.stream) : stream.name);
    for (const DeviceActivity& item : model_.activities)
      event(item.name, to_string(item.kind), item.span, kFirstDevice + item.device, item.stream);
  }
  std::vector<Span> all_spans() const {
    std::vector<Span> spans;
    const auto add = [&](const auto& list) {
      for (const auto& item : list) spans.push_back(item.span);
    };
    add(model_.activities);
    add(model_.ranges);
    add(model_.calls);
    add(model_.overheads);
    return spans;
  }
  void separate() {
    if (!empty_) text_ += ",\n";
    empty_ = false;
  }
  void named(std::string_view what, int64_t process, int64_t thread, const std::string& name) {
    separate();
    fmt::format_to(std::back_inserter(text_), R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                   process, thread, quoted(name));
  }
  void event(NameId name, std::string_view category, const Span& span, int64_t process, int64_t thread) {
    separate();
    ++count_;
    fmt::format_to(std::back_inserter(text_), R"({{"ph":"X","name":{},"cat":"{}","ts":{},"dur":{},"pid":{},"tid":{}}})",
                   names_[name], category, microseconds(span.begin - first_), microseconds(span.length()), process, thread);
  }
  void host(NameId name, std::string_view category, const Span& span, int64_t thread) {
    event(name, category, span, thread >> 24, thread & 0xffffff);
  }

  const TraceModel& model_;
  int64_t first_ = std::numeric_limits<int64_t>::max();
  std::vector<std::string> names_;  // quoted
  std::string text_;
  bool empty_ = true;
  int64_t count_ = 0;
};

}  // namespace

ChromeTrace chrome_json(const TraceModel& model) { return Events(model).json(); }

}  // namespace kl::trace
