// JSON of rocprofv3: names of kernels and agents first, then the records that refer to them.
#include <lab/trace/import/import.hpp>

#include <lab/trace/import/decimal.hpp>
#include <lab/trace/import/finish.hpp>
#include <lab/trace/import/json_cutter.hpp>
#include <lab/trace/import/json_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace kl::trace {
namespace {

std::optional<int64_t> integer(std::string_view text) { return scaled_decimal(text, 0); }

// The member of an object, or of an object in it: "handle" of {"handle": 3}.
std::string_view inner(std::string_view text, std::string_view wanted) {
  std::string_view found;
  json_members(text, [&](std::string_view key, const JsonValue& value) {
    if (key == wanted) found = value.text;
    return key != wanted;
  });
  return found;
}

constexpr std::string_view kRoot = "/rocprofiler-sdk-tool";
constexpr std::string_view kProcess = "/rocprofiler-sdk-tool/*";
constexpr int64_t kGpu = 2;  // type of an agent

struct Operation {
  int64_t kind = kNone, operation = kNone;
};

class Importer {
 public:
  explicit Importer(std::filesystem::path path) : path_(std::move(path)) { model_.format = "rocprof"; }

  Result<TraceModel> read() {
    KL_TRY(ByteStream bytes, ByteStream::open(path_));
    const JsonParts parts{[this](std::string_view path) { return choose(path); },
                          [this](std::string_view path, std::string_view text) { part(path, text); }};
    const std::string broken = cut_json(bytes, parts);
    if (!broken.empty()) model_.gaps.push_back({GapKind::unreadable, 0, fmt::format("{}; read up to record {}", broken, records_)});
    add_left_out(model_, "records", senseless_, records_);
    name_kernels();
    name_operations();
    for (const DeviceActivity& item : model_.activities)
      if (std::none_of(model_.devices.begin(), model_.devices.end(), [&](const Device& d) { return d.index == item.device; }))
        model_.devices.push_back({item.device, device_names_[item.device]});
    return finish(std::move(model_), path_);
  }

 private:
  static Cut choose(std::string_view path) {
    if (path.empty() || path == kRoot || path == kProcess) return Cut::enter;
    if (!path.starts_with(kProcess)) return Cut::skip;
    const std::string_view rest = path.substr(kProcess.size());
    if (rest == "/metadata" || rest == "/agents/*" || rest == "/kernel_symbols/*" || rest == "/strings/buffer_records/*") return Cut::take;
    if (rest == "/agents" || rest == "/kernel_symbols" || rest == "/buffer_records" || rest == "/strings" || rest == "/strings/buffer_records")
      return Cut::enter;
    for (const std::string_view records : {"/buffer_records/kernel_dispatch", "/buffer_records/memory_copy", "/buffer_records/hip_api"}) {
      if (rest == records) return Cut::enter;
      if (rest.starts_with(records) && rest.substr(records.size()) == "/*") return Cut::take;
    }
    return Cut::skip;
  }

  void part(std::string_view path, std::string_view text) {
    const std::string_view rest = path.substr(kProcess.size());
    if (rest == "/metadata") process_ = thread_number(integer(inner(text, "pid")).value_or(0) & 0xffffffff, 0);
    else if (rest == "/agents/*") agent(text);
    else if (rest == "/kernel_symbols/*") symbol(text);
    else if (rest == "/strings/buffer_records/*") operations(text);
    else if (rest == "/buffer_records/kernel_dispatch/*") record(text, ActivityKind::kernel);
    else if (rest == "/buffer_records/memory_copy/*") record(text, ActivityKind::copy);
    else call(text);
  }

  void agent(std::string_view text) {
    int64_t handle = kNone, type = 0, index = kNone;
    std::string name, product;
    json_members(text, [&](std::string_view key, const JsonValue& value) {
      if (key == "id") handle = integer(inner(value.text, "handle")).value_or(kNone);
      else if (key == "type") type = integer(value.text).value_or(0);
      else if (key == "logical_node_type_id") index = integer(value.text).value_or(kNone);
      else if (key == "name") name = json_characters(value.text, characters_);
      else if (key == "product_name") product = json_characters(value.text, characters_);
      return true;
    });
    if (type != kGpu) return;
    if (index == kNone) index = static_cast<int64_t>(agents_.size());
    agents_[handle] = index;
    device_names_[index] = product.empty() ? name : product;
  }

  void symbol(std::string_view text) {
    int64_t id = kNone;
    std::string name, readable;
    json_members(text, [&](std::string_view key, const JsonValue& value) {
      if (key == "kernel_id") id = integer(value.text).value_or(kNone);
      else if (key == "kernel_name") name = json_characters(value.text, characters_);
      else if (key == "formatted_kernel_name") readable = json_characters(value.text, characters_);
      return true;
    });
    symbols_[id] = readable.empty() ? name : readable;
  }

  // The names of one kind's operations; a record's `kind` and `operation` are numbers in these lists.
  void operations(std::string_view text) {
    std::vector<std::string>& names = operations_.emplace_back();
    json_members(text, [&](std::string_view key, const JsonValue& value) {
      if (key == "operations")
        json_elements(value.text, [&](std::string_view name) {
          if (name.size() >= 2 && name.front() == '"') name = name.substr(1, name.size() - 2);
          names.emplace_back(json_characters(name, characters_));
        });
      return true;
    });
  }
  const std::string* operation_name(const Operation& of) const {
    const auto at = [](const auto& list, int64_t i) { return i >= 0 && static_cast<size_t>(i) < list.size() ? &list[static_cast<size_t>(i)] : nullptr; };
    const auto* names = at(operations_, of.kind);
    return names == nullptr ? nullptr : at(*names, of.operation);
  }

  struct Record {
    std::optional<int64_t> begin, end;
    int64_t thread = 0, correlation = kNone, stream = 0, queue = kNone, agent = kNone, kernel = kNone, bytes = 0, source = kNone;
    Operation what;
  };
  static Record record_of(std::string_view text) {
    Record r;
    const auto handle = [](const JsonValue& value) { return integer(inner(value.text, "handle")).value_or(kNone); };
    json_members(text, [&](std::string_view key, const JsonValue& value) {
      if (key == "start_timestamp") r.begin = integer(value.text);
      else if (key == "end_timestamp") r.end = integer(value.text);
      else if (key == "thread_id") r.thread = integer(value.text).value_or(0);
      else if (key == "kind") r.what.kind = integer(value.text).value_or(kNone);
      else if (key == "operation") r.what.operation = integer(value.text).value_or(kNone);
      else if (key == "bytes") r.bytes = integer(value.text).value_or(0);
      else if (key == "correlation_id") r.correlation = integer(inner(value.text, "internal")).value_or(kNone);
      else if (key == "stream_id") r.stream = handle(value);
      else if (key == "dst_agent_id") r.agent = handle(value);
      else if (key == "src_agent_id") r.source = handle(value);
      else if (key == "dispatch_info")
        json_members(value.text, [&](std::string_view name, const JsonValue& v) {
          if (name == "agent_id") r.agent = handle(v);
          else if (name == "queue_id") r.queue = handle(v);
          else if (name == "kernel_id") r.kernel = integer(v.text).value_or(kNone);
          return true;
        });
      return true;
    });
    return r;
  }

  void record(std::string_view text, ActivityKind kind) {
    ++records_;
    const Record r = record_of(text);
    const auto span = sensible_span(r.begin, r.end);
    if (!span) {
      ++senseless_;
      return;
    }
    DeviceActivity item;
    item.kind = kind;
    item.span = *span;
    auto agent = agents_.find(r.agent);
    if (agent == agents_.end()) agent = agents_.find(r.source);
    item.device = agent == agents_.end() ? 0 : agent->second;
    item.stream = std::max<int64_t>(r.stream, 0);
    item.correlation = r.correlation;
    item.process = process_;
    item.bytes = std::max<int64_t>(r.bytes, 0);
    model_.activities.push_back(item);
    kernels_.push_back(kind == ActivityKind::kernel ? r.kernel : kNone);
    if (kind == ActivityKind::copy) copies_.push_back({model_.activities.size() - 1, r.what});
  }

  void call(std::string_view text) {
    ++records_;
    const Record r = record_of(text);
    const auto span = sensible_span(r.begin, r.end);
    if (!span) {
      ++senseless_;
      return;
    }
    model_.calls.push_back({CallKind::other, *span, kNoName, process_, process_ + (r.thread & 0xffffff), r.correlation});
    called_.push_back(r.what);
  }

  // Once all is read: a file may hold its records before its names.
  void name_operations() {
    for (size_t i = 0; i < called_.size(); ++i) {
      HostCall& call = model_.calls[i];
      const std::string* name = operation_name(called_[i]);
      call.name = model_.names.id(name == nullptr ? "HIP call" : *name);
      call.kind = call_kind(model_.names[call.name]);
    }
    for (const auto& [i, what] : copies_)
      if (const std::string* name = operation_name(what)) model_.activities[i].name = model_.names.id(*name);
  }
  void name_kernels() {
    std::unordered_map<int64_t, NameId> known;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      DeviceActivity& item = model_.activities[i];
      if (item.kind != ActivityKind::kernel) {
        item.name = model_.names.id("copy");
        continue;
      }
      auto name = known.find(kernels_[i]);
      if (name == known.end()) {
        const auto symbol = symbols_.find(kernels_[i]);
        name = known.emplace(kernels_[i], model_.names.id(symbol == symbols_.end() ? fmt::format("kernel {}", kernels_[i]) : symbol->second)).first;
      }
      item.name = name->second;
    }
  }

  const std::filesystem::path path_;
  TraceModel model_;
  std::unordered_map<int64_t, int64_t> agents_;
  std::map<int64_t, std::string> device_names_;
  std::unordered_map<int64_t, std::string> symbols_;
  std::vector<int64_t> kernels_;  // by activity
  std::vector<std::vector<std::string>> operations_;        // by kind
  std::vector<Operation> called_;                           // by call
  std::vector<std::pair<size_t, Operation>> copies_;        // with their activities
  int64_t process_ = 0, records_ = 0, senseless_ = 0;
  std::string characters_;
};

}  // namespace

Result<TraceModel> read_rocprof_json(const std::filesystem::path& path) { return Importer(path).read(); }

}  // namespace kl::trace
