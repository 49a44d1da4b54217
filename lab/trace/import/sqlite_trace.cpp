#include <lab/trace/import/import.hpp>

#include <lab/trace/import/finish.hpp>
#include <lab/trace/layout.hpp>
#include <lab/trace/sqlite.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace kl::trace {
namespace {

// Columns are found by name; those that are not required read as NULL where they are absent.
struct Column {
  std::string_view name;
  bool required = true;
};

class Reader {
 public:
  explicit Reader(std::filesystem::path path) : path_(std::move(path)) {}

  Result<TraceModel> read() {
    KL_CHECK(open());
    metadata();
    strings();
    devices();
    activities("CUPTI_ACTIVITY_KIND_KERNEL", ActivityKind::kernel);
    activities("CUPTI_ACTIVITY_KIND_MEMCPY", ActivityKind::copy);
    activities("CUPTI_ACTIVITY_KIND_MEMSET", ActivityKind::set);
    in_written_order();
    calls();
    ranges();
    overheads();
    graph_nodes();
    stored_gaps();
    if (own_ && !range_device_.empty()) make_ranges_the_device(model_, range_device_);
    const std::string said = model_.activities.empty() ? diagnosis() : "";
    return finish(std::move(model_), path_, said);
  }

 private:
  Outcome open() {
    sqlite3* raw = nullptr;
    std::string address = "file:";
    for (const char c : std::filesystem::absolute(path_).string())
      if (c == '%' || c == '?' || c == '#') address += fmt::format("%{:02x}", c);
      else address += c;
    // Immutable: a trace on read-only media has no place for locks.
    const int code = sqlite3_open_v2((address + "?immutable=1").c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
    database_.reset(raw);
    if (code != SQLITE_OK) return unopened();
    // A file from elsewhere: nothing in it is run, so views are not looked at.
    sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    Statement list(database_.get(), "SELECT name FROM sqlite_master WHERE type = 'table'");
    if (!list.good()) return unopened();
    int step = 0;
    while ((step = list.step()) == SQLITE_ROW) tables_.insert(list.text(0));
    if (step != SQLITE_DONE) return unopened();
    // A page cut short reads as if it ended in zeros, without any error.
    Statement page(database_.get(), "PRAGMA page_size");
    std::error_code code_of_size;
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path_, code_of_size));
    if (page.good() && page.step() == SQLITE_ROW && !code_of_size && bytes % page.integer(0).value_or(1) != 0)
      unreadable(fmt::format("the file ends after {} bytes, inside a page: it is cut short", bytes), 0);
    return {};
  }
  Error unopened() const {
    return make_error(Status::insufficient_trace_data,
                      fmt::format("{} cannot be opened: {}", path_.string(),
                                  database_ ? sqlite3_errmsg(database_.get()) : "out of memory"),
                      "it is cut short or damaged: capture or export it again");
  }

  void unreadable(std::string what, int64_t count) { model_.gaps.push_back({GapKind::unreadable, count, std::move(what)}); }

  std::set<std::string> columns_of(std::string_view table) {
    std::set<std::string> columns;
    Statement info(database_.get(), fmt::format("SELECT name FROM pragma_table_info('{}')", table));
    while (info.good() && info.step() == SQLITE_ROW) columns.insert(info.text(0));
    return columns;
  }

  // Calls row(statement) for every row; it answers false for one that makes no sense, and those are counted.
  template <class Row>
  void rows(const std::string& table, const std::vector<Column>& wanted, Row row) {
    if (!tables_.contains(table)) return;
    const std::set<std::string> there = columns_of(table);
    std::vector<std::string> selected;
    for (const Column& column : wanted) {
      const bool found = there.contains(std::string(column.name));
      if (!found && column.required)
        return unreadable(fmt::format("table {} has no column {}: not read", table, column.name), 0);
      selected.push_back(found ? fmt::format("\"{}\"", column.name) : "NULL");
    }
    Statement select(database_.get(), fmt::format("SELECT {} FROM \"{}\"", fmt::join(selected, ", "), table));
    if (!select.good()) return unreadable(fmt::format("table {}: {}", table, sqlite3_errmsg(database_.get())), 0);
    int64_t read = 0, senseless = 0;
    int step = 0;
    while ((step = select.step()) == SQLITE_ROW) {
      ++read;
      if (!row(select)) ++senseless;
    }
    if (step != SQLITE_DONE)
      unreadable(fmt::format("table {} cannot be read beyond row {}: {}", table, read, sqlite3_errmsg(database_.get())), 0);
    add_left_out(model_, "table " + table, senseless, read);
  }

  static bool span_of(const Statement& s, int begin, int end, Span& span) {
    const auto found = sensible_span(s.integer(begin), s.integer(end));
    if (found) span = *found;
    return found.has_value();
  }
  static int64_t or_none(const Statement& s, int column) { return s.integer(column).value_or(kNone); }
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
      unreadable(fmt::format("written in version {} of this format, read as {}", version, layout::kVersion), 0);
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
    rows("KERNEL_LAB_STREAMS", {{"deviceId"}, {"streamId"}, {"name"}}, [&](const Statement& s) {
      model_.streams.push_back({or_none(s, 0), or_none(s, 1), s.text(2)});
      return true;
    });
  }

  void activities(const std::string& table, ActivityKind kind) {
    const bool kernels = kind == ActivityKind::kernel;
    rows(table,
         {{"start"}, {"end"}, {"deviceId"}, {"streamId", false}, {"correlationId", false}, {"globalPid", false},
          {"graphNodeId", false}, {"ordinal", false}, {"bytes", false}, {kernels ? "demangledName" : "nameId", false},
          {"shortName", false}, {"operatorId", false}},
         [&](const Statement& s) {
           DeviceActivity item;
           item.kind = kind;
           if (!span_of(s, 0, 1, item.span)) return false;
           item.device = s.integer(2).value_or(0);
           item.stream = s.integer(3).value_or(0);
           item.correlation = or_none(s, 4);
           item.process = s.integer(5).value_or(0);
           item.graph_node = or_none(s, 6);
           item.bytes = s.integer(8).value_or(0);
           const auto name = s.integer(9) ? s.integer(9) : s.integer(10);
           item.name = !kernels && !name ? model_.names.id(to_string(kind)) : name_of(name);
           if (const auto op = s.integer(11)) item.op = name_of(op);
           ordinals_.push_back(or_none(s, 7));
           model_.activities.push_back(item);
           return true;
         });
  }

  // The tables part what the model holds in one list.
  void in_written_order() {
    std::vector<size_t> order(ordinals_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ordinals_[a] < ordinals_[b]; });
    std::vector<DeviceActivity> sorted;
    sorted.reserve(order.size());
    for (const size_t i : order) sorted.push_back(model_.activities[i]);
    model_.activities = std::move(sorted);
  }

  void calls() {
    rows("CUPTI_ACTIVITY_KIND_RUNTIME", {{"start"}, {"end"}, {"globalTid", false}, {"correlationId", false}, {"nameId"}},
         [&](const Statement& s) {
           HostCall call;
           if (!span_of(s, 0, 1, call.span)) return false;
           call.thread = s.integer(2).value_or(0);
           call.process = process_of(call.thread);
           call.correlation = or_none(s, 3);
           call.name = name_of(s.integer(4));
           call.kind = call_kind(model_.names[call.name]);
           model_.calls.push_back(call);
           return true;
         });
  }

  void ranges() {
    int64_t open = 0;
    rows("NVTX_EVENTS", {{"start"}, {"end", false}, {"category", false}, {"text", false}, {"globalTid", false}, {"textId", false}},
         [&](const Statement& s) {
           if (s.null(1)) {
             ++open;
             return true;
           }
           Range range;
           if (!span_of(s, 0, 1, range.span)) return false;
           const int64_t category = s.integer(2).value_or(0);
           if (own_ && category >= 1 && category <= 4) range.kind = static_cast<RangeKind>(category - 1);
           range.thread = s.integer(4).value_or(0);
           range.process = process_of(range.thread);
           range.name = s.integer(5) ? name_of(s.integer(5)) : model_.names.id(s.text(3));
           model_.ranges.push_back(range);
           return true;
         });
    if (open > 0) add_gap(model_, GapKind::window_cut, fmt::format("{} marks, or ranges that the capture's end cut off", open), open);
  }

  void overheads() {
    rows("PROFILER_OVERHEAD", {{"start"}, {"end"}, {"nameId", false}}, [&](const Statement& s) {
      Overhead overhead;
      if (!span_of(s, 0, 1, overhead.span)) return false;
      overhead.name = name_of(s.integer(2));
      model_.overheads.push_back(overhead);
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
      for (int kind = 0; kind <= static_cast<int>(GapKind::outside_ranges); ++kind)
        if (s.text(0) == to_string(static_cast<GapKind>(kind))) {
          model_.gaps.push_back({static_cast<GapKind>(kind), s.integer(1).value_or(0), s.text(2)});
          return true;
        }
      return false;
    });
  }

  // What the tool itself said went wrong.
  std::string diagnosis() {
    std::string text;
    rows("DIAGNOSTIC_EVENT", {{"severity"}, {"text"}}, [&](const Statement& s) {
      if (text.empty() && s.integer(0).value_or(0) >= 2) text = "; the tool said: " + s.text(1).substr(0, 300);
      return true;
    });
    return text;
  }

  const std::filesystem::path path_;
  Database database_;
  std::set<std::string> tables_;
  std::map<int64_t, NameId> strings_;
  std::vector<int64_t> ordinals_;
  TraceModel model_;
  bool own_ = false;
  std::string range_device_;
};

}  // namespace

Result<TraceModel> read_sqlite_trace(const std::filesystem::path& path) { return Reader(path).read(); }

}  // namespace kl::trace
