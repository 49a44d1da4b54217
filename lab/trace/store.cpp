#include <lab/trace/store.hpp>

#include <lab/core/files.hpp>
#include <lab/core/record.hpp>
#include <lab/trace/layout.hpp>
#include <lab/trace/sqlite.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl::trace {
namespace {

constexpr std::string_view kSchema = "3.24.0";  // of the exports whose layout this is

// Builds the file in memory; errors are kept and asked for once.
class Writer {
 public:
  explicit Writer(const TraceModel& model) : model_(model) {
    sqlite3* raw = nullptr;
    sqlite3_open(":memory:", &raw);
    database_.reset(raw);
  }

  Result<std::string> write() {
    run("BEGIN");
    strings();
    metadata();
    devices();
    activities("CUPTI_ACTIVITY_KIND_KERNEL", ActivityKind::kernel);
    activities("CUPTI_ACTIVITY_KIND_MEMCPY", ActivityKind::copy);
    activities("CUPTI_ACTIVITY_KIND_MEMSET", ActivityKind::set);
    calls();
    ranges();
    overheads();
    totals();
    gaps();
    graph_nodes();
    run("COMMIT");
    if (!failure_.empty())
      return make_error(Status::error, "cannot build the trace in memory: " + failure_, "free some memory and capture fewer steps");
    sqlite3_int64 size = 0;
    unsigned char* bytes = sqlite3_serialize(database_.get(), "main", &size, 0);
    if (bytes == nullptr)
      return make_error(Status::error, "cannot build the trace in memory: out of memory", "capture fewer steps");
    std::string content(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    sqlite3_free(bytes);
    return content;
  }

 private:
  void run(std::string_view text) {
    Statement statement(database_.get(), text);
    if (!statement.good() || statement.step() != SQLITE_DONE) note();
  }
  void note() {
    if (failure_.empty()) failure_ = sqlite3_errmsg(database_.get());
  }
  // One table and its rows; each row is bound by `row(statement, item)`, which answers false to leave it out.
  template <class Items, class Row>
  void table(std::string_view name, std::string_view columns, int count, const Items& items, Row row) {
    if (items.empty()) return;
    run(fmt::format("CREATE TABLE {} ({})", name, columns));
    std::string places = "?";
    for (int i = 1; i < count; ++i) places += ",?";
    Statement insert(database_.get(), fmt::format("INSERT INTO {} VALUES ({})", name, places));
    if (!insert.good()) return note();
    for (const auto& item : items) {
      if (!row(insert, item)) continue;
      if (insert.step() != SQLITE_DONE) note();
      insert.reset();
    }
  }
  static void optional(Statement& s, int at, int64_t value) {
    if (value == kNone)
      s.bind_null(at);
    else
      s.bind(at, value);
  }

  void strings() {
    std::vector<NameId> ids(model_.names.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<NameId>(i);
    table("StringIds", "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL", 2, ids, [&](Statement& s, NameId id) {
      s.bind(1, int64_t{id});
      s.bind(2, std::string_view(model_.names[id]));
      return true;
    });
  }

  void metadata() {
    std::map<std::string, std::string> rows = model_.metadata;
    rows[std::string(layout::kProductName)] = layout::kProduct;
    rows[std::string(layout::kProductVersion)] = model_.source_version;
    rows[std::string(layout::kSchemaVersion)] = kSchema;
    rows[std::string(layout::kTraceVersion)] = layout::kVersion;
    rows[std::string(layout::kCategories)] = layout::kCategoryNames;
    if (model_.steps_are_the_window) rows[std::string(layout::kWindow)] = "each step";
    if (ranges_are_the_device()) rows[std::string(layout::kRangesAre)] = model_.devices.front().name;
    table("META_DATA_EXPORT", "name TEXT, value TEXT", 2, rows, [](Statement& s, const auto& row) {
      s.bind(1, std::string_view(row.first));
      s.bind(2, std::string_view(row.second));
      return true;
    });
  }

  bool ranges_are_the_device() const {
    return std::any_of(model_.gaps.begin(), model_.gaps.end(), [](const Gap& gap) { return gap.kind == GapKind::outside_ranges; });
  }

  void devices() {
    if (ranges_are_the_device()) return;
    table("TARGET_INFO_GPU", "id INTEGER NOT NULL, name TEXT", 2, model_.devices, [](Statement& s, const Device& d) {
      s.bind(1, d.index);
      s.bind(2, std::string_view(d.name));
      return true;
    });
    table("KERNEL_LAB_STREAMS", "deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, name TEXT", 3, model_.streams,
          [](Statement& s, const Stream& stream) {
            s.bind(1, stream.device);
            s.bind(2, stream.stream);
            s.bind(3, std::string_view(stream.name));
            return true;
          });
  }

  // Activities that are ranges are written as those.
  void activities(std::string_view name, ActivityKind kind) {
    std::vector<const DeviceActivity*> chosen;
    for (const DeviceActivity& item : model_.activities)
      if (item.kind == kind && item.range == kNone) chosen.push_back(&item);
    const bool kernels = kind == ActivityKind::kernel;
    const std::string columns =
        std::string("start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER, "
                    "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, graphNodeId INTEGER, ordinal INTEGER, "
                    "operatorId INTEGER, ") +
        (kernels ? "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL"
                 : "bytes INTEGER NOT NULL, nameId INTEGER NOT NULL");
    table(name, columns, 12, chosen, [&](Statement& s, const DeviceActivity* item) {
      s.bind(1, item->span.begin);
      s.bind(2, item->span.end);
      s.bind(3, item->device);
      s.bind_null(4);
      s.bind(5, item->stream);
      optional(s, 6, item->correlation);
      s.bind(7, item->process);
      optional(s, 8, item->graph_node);
      s.bind(9, item - model_.activities.data());
      optional(s, 10, item->op == kNoName ? kNone : int64_t{item->op});
      s.bind(11, kernels ? int64_t{item->name} : item->bytes);
      s.bind(12, int64_t{item->name});
      return true;
    });
  }

  void calls() {
    table("CUPTI_ACTIVITY_KIND_RUNTIME",
          "start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL", 5,
          model_.calls, [](Statement& s, const HostCall& call) {
            s.bind(1, call.span.begin);
            s.bind(2, call.span.end);
            s.bind(3, call.thread);
            optional(s, 4, call.correlation);
            s.bind(5, int64_t{call.name});
            return true;
          });
  }

  void ranges() {
    table("NVTX_EVENTS",
          "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, category INTEGER, text TEXT, globalTid INTEGER, "
          "textId INTEGER, domainId INTEGER",
          8, model_.ranges, [](Statement& s, const Range& range) {
            s.bind(1, range.span.begin);
            s.bind(2, range.span.end);
            s.bind(3, layout::kPushPop);
            s.bind(4, int64_t{static_cast<uint8_t>(range.kind)} + 1);
            s.bind_null(5);
            s.bind(6, range.thread);
            s.bind(7, int64_t{range.name});
            s.bind(8, int64_t{0});
            return true;
          });
  }

  void overheads() {
    table("PROFILER_OVERHEAD", "start INTEGER NOT NULL, end INTEGER NOT NULL, nameId INTEGER NOT NULL", 3, model_.overheads,
          [](Statement& s, const Overhead& overhead) {
            s.bind(1, overhead.span.begin);
            s.bind(2, overhead.span.end);
            s.bind(3, int64_t{overhead.name});
            return true;
          });
  }

  void totals() {
    table("KERNEL_LAB_TOTALS", "kind INTEGER NOT NULL, nameId INTEGER NOT NULL, count INTEGER NOT NULL, totalNs INTEGER NOT NULL", 4,
          model_.totals, [](Statement& s, const WorkTotal& total) {
            s.bind(1, int64_t{static_cast<uint8_t>(total.kind)});
            s.bind(2, int64_t{total.name});
            s.bind(3, total.count);
            s.bind(4, total.total_ns);
            return true;
          });
  }

  void gaps() {
    table("KERNEL_LAB_GAPS", "kind TEXT NOT NULL, count INTEGER NOT NULL, what TEXT", 3, model_.gaps, [](Statement& s, const Gap& gap) {
      s.bind(1, to_string(gap.kind));
      s.bind(2, gap.count);
      s.bind(3, std::string_view(gap.what));
      return gap.kind != GapKind::outside_ranges;  // META_DATA_EXPORT says so
    });
  }

  void graph_nodes() {
    table("KERNEL_LAB_GRAPH_NODES", "graphNodeId INTEGER NOT NULL, seam TEXT NOT NULL", 2, model_.graph_nodes,
          [](Statement& s, const auto& node) {
            s.bind(1, node.first);
            s.bind(2, std::string_view(node.second));
            return true;
          });
  }

  const TraceModel& model_;
  Database database_;
  std::string failure_;
};

}  // namespace

Outcome write_trace(const TraceModel& model, const std::filesystem::path& path) {
  KL_TRY(const std::string content, Writer(model).write());
  return write_file_atomic(path, content);
}

}  // namespace kl::trace
