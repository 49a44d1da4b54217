// SQLite in the layout of Nsight Systems exports (schemas 2.9 to 3.25), which the lab's own file has.
#include <lab/trace/import/import.hpp>

#include <lab/trace/import/sqlite_file.hpp>
#include <lab/trace/layout.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

namespace kl::trace {
namespace {

// Where the export has no enumerations. Memory kinds are not numbered as CUPTI numbers them.
constexpr std::array<std::string_view, 11> kCopyKinds = {
    "Unknown",        "Host-to-Device",  "Device-to-Host",   "Host-to-Array", "Array-to-Host", "Array-to-Array",
    "Array-to-Device", "Device-to-Array", "Device-to-Device", "Host-to-Host",  "Peer-to-Peer"};
constexpr std::array<std::string_view, 8> kMemoryKinds = {"Pageable", "Pinned",        "Device",         "Array",
                                                          "Managed",  "Device Static", "Managed Static", "Unknown"};
constexpr std::array<std::string_view, 5> kWaitKinds = {"Unknown", "Event sync", "Stream wait sync", "Stream sync", "Context sync"};
constexpr int64_t kStreamWait = 2;  // of a stream, not of the host

constexpr int64_t kMark = 34, kDomain = 75;  // events of NVTX that have no end

using Labels = std::map<int64_t, std::string>;

int64_t pid_of(int64_t process) { return process >> 24 & 0xffffff; }

class Reader {
 public:
  explicit Reader(const SqliteFile& file) : file_(file) {}

  Result<TraceModel> read() {
    if (!file_.cut_short().empty()) unreadable(file_.cut_short());
    metadata();
    strings();
    devices();
    activities("CUPTI_ACTIVITY_KIND_KERNEL", ActivityKind::kernel);
    activities("CUPTI_ACTIVITY_KIND_MEMCPY", ActivityKind::copy);
    activities("CUPTI_ACTIVITY_KIND_MEMSET", ActivityKind::set);
    whole_graphs();
    in_written_order();
    calls();
    waits_without_call();
    ranges();
    overheads();
    totals();
    graph_nodes();
    stored_gaps();
    if (own_ && !range_device_.empty()) make_ranges_the_device(model_, range_device_);
    if (!own_) {
      find_processes(model_);
      number_devices();
    }
    const std::string said = model_.activities.empty() ? diagnosis() : "";
    return finish(std::move(model_), file_.path(), said);
  }

 private:
  void unreadable(std::string what) { model_.gaps.push_back({GapKind::unreadable, 0, std::move(what)}); }

  template <class Row>
  void rows(const std::string& table, const std::vector<Column>& wanted, Row row) {
    for (const std::string& version : file_.versions_of(table)) file_.rows(model_, version, wanted, row);
  }
  template <class Item>
  void expect(std::vector<Item>& items, const std::string& table) {
    size_t more = 0;
    for (const std::string& version : file_.versions_of(table)) more += file_.expected_rows(version);
    items.reserve(items.size() + more);
  }
  Labels labels(const std::string& table, std::span<const std::string_view> otherwise) {
    Labels found;
    for (size_t i = 0; i < otherwise.size(); ++i) found[static_cast<int64_t>(i)] = otherwise[i];
    rows(table, {{"id"}, {"label"}}, [&](const Statement& s) {
      found[or_none(s, 0)] = s.text(1);
      return true;
    });
    return found;
  }
  NameId name_of(const std::optional<int64_t>& id) {
    if (id)
      if (const auto it = strings_.find(*id); it != strings_.end()) return it->second;
    return model_.names.id(id ? fmt::format("string {}", *id) : "unnamed");
  }

  void metadata() {
    rows("META_DATA_EXPORT", {{"name"}, {"value"}}, [&](const Statement& s) {
      model_.metadata[s.text(0)] = s.text(1);
      return true;
    });
    const auto take = [&](std::string_view key) {
      const auto it = model_.metadata.find(std::string(key));
      if (it == model_.metadata.end()) return std::string();
      std::string value = it->second;
      if (own_) model_.metadata.erase(it);
      return value;
    };
    own_ = take(layout::kProductName) == layout::kProduct;
    model_.format = own_ ? "kernel-lab" : "nsys";
    model_.source_version = take(layout::kProductVersion);
    if (!own_) return;
    take(layout::kProductName);
    take(layout::kSchemaVersion);
    take(layout::kCategories);
    if (const std::string version = take(layout::kTraceVersion); version != layout::kVersion)
      unreadable(fmt::format("written in version {} of this format, read as {}", version, layout::kVersion));
    model_.steps_are_the_window = !take(layout::kWindow).empty();
    range_device_ = take(layout::kRangesAre);
  }

  void strings() {
    rows("StringIds", {{"id"}, {"value"}}, [&](const Statement& s) {
      const auto id = s.integer(0);
      if (!id) return false;
      strings_[*id] = model_.names.id(s.text(1));
      return true;
    });
  }

  void devices() {
    rows("TARGET_INFO_GPU", {{"id"}, {"name", false}}, [&](const Statement& s) {
      const auto id = s.integer(0);
      if (!id) return false;
      model_.devices.push_back({*id, s.text(1)});
      return true;
    });
    if (model_.devices.empty())  // of schemas before 3
      rows("TARGET_INFO_CUDA_GPU", {{"id"}, {"name", false}}, [&](const Statement& s) {
        model_.devices.push_back({or_none(s, 0), s.text(1)});
        return true;
      });
    rows("TARGET_INFO_CUDA_DEVICE", {{"gpuId"}, {"cudaId"}, {"pid"}}, [&](const Statement& s) {
      if (s.integer(0) && s.integer(1) && s.integer(2)) gpus_[{*s.integer(2), *s.integer(1)}] = *s.integer(0);
      return true;
    });
    rows("KERNEL_LAB_STREAMS", {{"deviceId"}, {"streamId"}, {"name"}}, [&](const Statement& s) {
      model_.streams.push_back({or_none(s, 0), or_none(s, 1), s.text(2)});
      return true;
    });
  }

  void activities(const std::string& table, ActivityKind kind) {
    const bool kernels = kind == ActivityKind::kernel;
    const Labels copies = labels("ENUM_CUDA_MEMCPY_OPER", kCopyKinds), memories = labels("ENUM_CUDA_MEM_KIND", kMemoryKinds);
    const auto label = [](const Labels& all, const std::optional<int64_t>& id) {
      const auto it = id ? all.find(*id) : all.end();
      return it == all.end() ? std::string("Unknown") : it->second;
    };
    expect(model_.activities, table);
    rows(table,
         {{"start"}, {"end"}, {"deviceId"}, {"streamId", false}, {"correlationId", false}, {"globalPid", false},
          {"graphNodeId", false}, {"ordinal", false}, {"bytes", false}, {kernels ? "demangledName" : "nameId", false},
          {"shortName", false}, {"operatorId", false}, {"copyKind", false}, {"srcKind", false}, {"dstKind", false}, {"memKind", false}},
         [&](const Statement& s) {
           DeviceActivity item;
           item.kind = kind;
           const auto span = span_of(s, 0, 1);
           if (!span) return false;
           item.span = *span;
           item.device = s.integer(2).value_or(0);
           item.stream = s.integer(3).value_or(0);
           item.correlation = or_none(s, 4);
           item.process = s.integer(5).value_or(0);
           item.graph_node = or_none(s, 6);
           item.bytes = s.integer(8).value_or(0);
           const auto name = s.integer(9) ? s.integer(9) : s.integer(10);
           if (kernels || name) item.name = name_of(name);
           else if (s.null(12)) item.name = model_.names.id(s.null(15) ? to_string(kind) : fmt::format("Memset ({})", label(memories, s.integer(15))));
           else if (s.null(13)) item.name = model_.names.id(fmt::format("Memcpy {}", label(copies, s.integer(12))));
           else
             item.name = model_.names.id(fmt::format("Memcpy {} ({} -> {})", label(copies, s.integer(12)), label(memories, s.integer(13)),
                                                     label(memories, s.integer(14))));
           if (const auto op = s.integer(11)) item.op = name_of(op);
           if (own_) ordinals_.push_back(or_none(s, 7));
           model_.activities.push_back(item);
           return true;
         });
  }

  // Replays that were traced as one item: the kernels in them are not apart.
  void whole_graphs() {
    int64_t replays = 0;
    rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
         {{"start"}, {"end"}, {"deviceId"}, {"streamId", false}, {"correlationId", false}, {"globalPid", false}, {"graphId", false}},
         [&](const Statement& s) {
           const auto span = span_of(s, 0, 1);
           if (!span) return false;
           DeviceActivity item;
           item.span = *span;
           item.device = s.integer(2).value_or(0);
           item.stream = s.integer(3).value_or(0);
           item.correlation = or_none(s, 4);
           item.process = s.integer(5).value_or(0);
           item.name = model_.names.id(fmt::format("CUDA graph {}", s.integer(6).value_or(0)));
           if (own_) ordinals_.push_back(kNone);
           model_.activities.push_back(item);
           ++replays;
           return true;
         });
    if (replays > 0)
      add_gap(model_, GapKind::graph_granular,
              fmt::format("{} replays of CUDA graphs are one item each (nsys --cuda-graph-trace=node tells their kernels apart)", replays), replays);
  }

  // The tables part what the model holds in one list.
  void in_written_order() {
    if (std::is_sorted(ordinals_.begin(), ordinals_.end())) return;
    std::vector<size_t> order(ordinals_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ordinals_[a] < ordinals_[b]; });
    std::vector<DeviceActivity> sorted;
    sorted.reserve(order.size());
    for (const size_t i : order) sorted.push_back(model_.activities[i]);
    model_.activities = std::move(sorted);
  }

  void calls() {
    expect(model_.calls, "CUPTI_ACTIVITY_KIND_RUNTIME");
    rows("CUPTI_ACTIVITY_KIND_RUNTIME", {{"start"}, {"end"}, {"globalTid", false}, {"correlationId", false}, {"nameId"}},
         [&](const Statement& s) {
           HostCall call;
           const auto span = span_of(s, 0, 1);
           if (!span) return false;
           call.span = *span;
           call.thread = s.integer(2).value_or(0);
           call.process = process_of(call.thread);
           call.correlation = or_none(s, 3);
           call.name = name_of(s.integer(4));
           call.kind = call_kind(model_.names[call.name]);
           model_.calls.push_back(call);
           return true;
         });
  }

  // A wait as the device's side tells it repeats a call of the host, unless the calls were not recorded.
  void waits_without_call() {
    const std::string table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
    if (file_.versions_of(table).empty()) return;
    std::unordered_set<int64_t> known;
    for (const HostCall& call : model_.calls) known.insert(call.correlation ^ call.process);
    const Labels kinds = labels("ENUM_CUPTI_SYNC_TYPE", kWaitKinds);
    rows(table, {{"start"}, {"end"}, {"correlationId"}, {"globalPid", false}, {"syncType", false}}, [&](const Statement& s) {
      const auto span = span_of(s, 0, 1);
      if (!span) return false;
      const int64_t correlation = or_none(s, 2), process = s.integer(3).value_or(0), kind = s.integer(4).value_or(0);
      if (kind == kStreamWait || known.contains(correlation ^ process)) return true;
      const auto label = kinds.find(kind);
      model_.calls.push_back({CallKind::sync, *span, model_.names.id(label == kinds.end() ? "sync" : label->second), process, process, correlation});
      return true;
    });
  }

  void ranges() {
    int64_t open = 0;
    rows("NVTX_EVENTS", {{"start"}, {"end", false}, {"category", false}, {"text", false}, {"globalTid", false}, {"textId", false}, {"eventType", false}},
         [&](const Statement& s) {
           if (s.null(1)) {
             open += s.integer(6) != kMark && s.integer(6) != kDomain;
             return true;
           }
           Range range;
           const auto span = span_of(s, 0, 1);
           if (!span) return false;
           range.span = *span;
           const int64_t category = s.integer(2).value_or(0);
           if (own_ && category >= 1 && category <= 4) range.kind = static_cast<RangeKind>(category - 1);
           range.thread = s.integer(4).value_or(0);
           range.process = process_of(range.thread);
           range.name = s.integer(5) ? name_of(s.integer(5)) : model_.names.id(s.text(3));
           model_.ranges.push_back(range);
           return true;
         });
    if (open > 0) add_gap(model_, GapKind::window_cut, fmt::format("{} ranges that the capture's end cut off", open), open);
  }

  void overheads() {
    rows("PROFILER_OVERHEAD", {{"start"}, {"end"}, {"nameId", false}}, [&](const Statement& s) {
      Overhead overhead;
      const auto span = span_of(s, 0, 1);
      if (!span) return false;
      overhead.span = *span;
      overhead.name = name_of(s.integer(2));
      model_.overheads.push_back(overhead);
      return true;
    });
  }

  void totals() {
    rows("KERNEL_LAB_TOTALS", {{"kind"}, {"nameId"}, {"count"}, {"totalNs"}}, [&](const Statement& s) {
      const int64_t kind = or_none(s, 0), count = or_none(s, 2), total = or_none(s, 3);
      if (kind < 0 || kind > static_cast<int64_t>(ActivityKind::set) || count < 0 || total < 0) return false;
      model_.totals.push_back({static_cast<ActivityKind>(kind), name_of(s.integer(1)), count, total});
      return true;
    });
  }

  void graph_nodes() {
    rows("KERNEL_LAB_GRAPH_NODES", {{"graphNodeId"}, {"seam"}}, [&](const Statement& s) {
      if (const auto node = s.integer(0)) model_.graph_nodes[*node] = s.text(1);
      return s.integer(0).has_value();
    });
  }

  void stored_gaps() {
    rows("KERNEL_LAB_GAPS", {{"kind"}, {"count"}, {"what"}}, [&](const Statement& s) {
      for (int kind = 0; kind <= static_cast<int>(GapKind::no_timeline); ++kind)
        if (s.text(0) == to_string(static_cast<GapKind>(kind))) {
          model_.gaps.push_back({static_cast<GapKind>(kind), s.integer(1).value_or(0), s.text(2)});
          return true;
        }
      return false;
    });
  }

  // Processes that see other devices number them differently; of the machine's devices those that did something count.
  void number_devices() {
    std::set<int64_t> used;
    for (DeviceActivity& item : model_.activities) {
      const auto gpu = gpus_.find({pid_of(item.process), item.device});
      if (gpu != gpus_.end()) item.device = gpu->second;
      used.insert(item.device);
    }
    if (!used.empty()) std::erase_if(model_.devices, [&](const Device& device) { return !used.contains(device.index); });
  }

  // What the tool itself said went wrong: its first error, else its first warning.
  std::string diagnosis() {
    constexpr int64_t kWarning = 2, kError = 3;
    std::string error, warning;
    rows("DIAGNOSTIC_EVENT", {{"severity"}, {"text"}}, [&](const Statement& s) {
      std::string& to = s.integer(0) == kError ? error : warning;
      if (to.empty() && (s.integer(0) == kError || s.integer(0) == kWarning)) to = "; the tool said: " + s.text(1).substr(0, 300);
      return true;
    });
    return error.empty() ? warning : error;
  }

  const SqliteFile& file_;
  std::map<std::pair<int64_t, int64_t>, int64_t> gpus_;  // the machine's number by process and its own number
  std::map<int64_t, NameId> strings_;
  std::vector<int64_t> ordinals_;
  TraceModel model_;
  bool own_ = false;
  std::string range_device_;
};

}  // namespace

Result<TraceModel> read_nsys_sqlite(const SqliteFile& file) { return Reader(file).read(); }

}  // namespace kl::trace
