// SQLite of rocprofv3 (rocpd, schemas 3 and 4): every table's name carries the id of the run.
#include <lab/trace/import/import.hpp>

#include <lab/trace/import/sqlite_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace kl::trace {
namespace {

class Reader {
 public:
  explicit Reader(const SqliteFile& file) : file_(file) { model_.format = "rocpd"; }

  Result<TraceModel> read() {
    if (!file_.cut_short().empty()) model_.gaps.push_back({GapKind::unreadable, 0, file_.cut_short()});
    rows("rocpd_metadata", {{"tag"}, {"value"}}, [&](const Statement& s) {
      model_.metadata[s.text(0)] = s.text(1);
      return true;
    });
    model_.source_version = model_.metadata["schema_version"];
    model_.metadata.erase("schema_version");
    constexpr std::string_view kOfEveryRun = "rocpd_string";
    for (const std::string& table : file_.with_suffix(std::string(kOfEveryRun))) one_run(table.substr(kOfEveryRun.size()));
    return finish(std::move(model_), file_.path());
  }

 private:
  // Where a row of schema 4 keeps what rows of schema 3 say themselves.
  struct Track {
    int64_t pid = 0, tid = 0, agent = 0, queue = 0, stream = 0;
  };
  struct Event {
    int64_t stack = kNone;
    std::string category;
  };

  template <class Row>
  void rows(const std::string& stem, const std::vector<Column>& wanted, Row row) {
    for (const std::string& table : file_.with_suffix(stem)) file_.rows(model_, table, wanted, row);
  }

  void one_run(const std::string& run) {
    run_ = run;
    strings_.clear();
    symbols_.clear();
    agents_.clear();
    tracks_.clear();
    timestamps_.clear();
    events_.clear();
    table("rocpd_string", {{"id"}, {"string"}}, [&](const Statement& s) {
      strings_[or_none(s, 0)] = s.text(1);
      return true;
    });
    table("rocpd_info_kernel_symbol", {{"id"}, {"kernel_name"}, {"display_name", false}}, [&](const Statement& s) {
      symbols_[or_none(s, 0)] = s.null(2) || s.text(2).empty() ? s.text(1) : s.text(2);
      return true;
    });
    agents();
    table("rocpd_track", {{"id"}, {"pid", false}, {"tid", false}, {"agent_id", false}, {"queue_id", false}, {"stream_id", false}}, [&](const Statement& s) {
      const auto number = [&](int column) { return s.integer(column).value_or(0); };
      tracks_[or_none(s, 0)] = {number(1), number(2), number(3), number(4), number(5)};
      return true;
    });
    table("rocpd_timestamp", {{"id"}, {"value"}}, [&](const Statement& s) {
      if (const auto value = s.integer(1)) timestamps_[or_none(s, 0)] = *value;
      return s.integer(1).has_value();
    });
    table("rocpd_event", {{"id"}, {"stack_id", false}, {"category_id", false}}, [&](const Statement& s) {
      events_[or_none(s, 0)] = {or_none(s, 1), string(s.integer(2))};
      return true;
    });
    // In schema 4 a category has a table of its own.
    std::unordered_map<int64_t, std::string> categories;
    table("rocpd_info_category", {{"id"}, {"name", false}, {"name_id", false}}, [&](const Statement& s) {
      categories[or_none(s, 0)] = s.null(1) ? string(s.integer(2)) : s.text(1);
      return true;
    });
    if (!categories.empty())
      table("rocpd_event", {{"id"}, {"category_id", false}}, [&](const Statement& s) {
        events_[or_none(s, 0)].category = categories[or_none(s, 1)];
        return true;
      });
    activities("rocpd_kernel_dispatch", ActivityKind::kernel);
    activities("rocpd_memory_copy", ActivityKind::copy);
    regions();
  }

  template <class Row>
  void table(const std::string& stem, const std::vector<Column>& wanted, Row row) {
    file_.rows(model_, stem + run_, wanted, row);
  }
  std::string string(const std::optional<int64_t>& id) const {
    const auto it = id ? strings_.find(*id) : strings_.end();
    return it == strings_.end() ? "" : it->second;
  }

  void agents() {
    table("rocpd_info_agent", {{"id"}, {"type", false}, {"type_index", false}, {"product_name", false}, {"name", false}}, [&](const Statement& s) {
      if (s.text(1) == "CPU") return true;
      const int64_t index = s.integer(2).value_or(or_none(s, 0));
      agents_[or_none(s, 0)] = index;
      names_[index] = s.text(3).empty() ? s.text(4) : s.text(3);
      return true;
    });
  }

  static std::vector<Column> timed(std::initializer_list<Column> more) {
    std::vector<Column> columns = {{"start", false},    {"end", false}, {"start_id", false}, {"end_id", false},
                                   {"track_id", false}, {"pid", false}, {"tid", false},      {"event_id", false}};
    columns.insert(columns.end(), more);
    return columns;
  }
  std::optional<int64_t> time(const Statement& s, int direct, int by_id) const {
    if (const auto value = s.integer(direct)) return value;
    const auto it = timestamps_.find(or_none(s, by_id));
    return it == timestamps_.end() ? std::nullopt : std::optional(it->second);
  }
  Track track(const Statement& s) const {
    const auto it = tracks_.find(or_none(s, 4));
    Track found = it == tracks_.end() ? Track{} : it->second;
    found.pid = s.integer(5).value_or(found.pid);
    found.tid = s.integer(6).value_or(found.tid);
    return found;
  }
  Event event(const Statement& s) const {
    const auto it = events_.find(or_none(s, 7));
    return it == events_.end() ? Event{} : it->second;
  }

  void activities(const std::string& stem, ActivityKind kind) {
    const bool kernels = kind == ActivityKind::kernel;
    table(stem,
          timed({{kernels ? "agent_id" : "dst_agent_id", false}, {"queue_id", false}, {"stream_id", false}, {kernels ? "kernel_id" : "name_id", false},
                 {"size", false}, {"src_agent_id", false}}),
          [&](const Statement& s) {
            const auto span = sensible_span(time(s, 0, 2), time(s, 1, 3));
            if (!span) return false;
            const Track on = track(s);
            DeviceActivity item;
            item.kind = kind;
            item.span = *span;
            // A copy is at its device's end: the destination's, else the source's.
            auto agent = agents_.find(s.integer(8).value_or(on.agent));
            if (agent == agents_.end()) agent = agents_.find(or_none(s, 13));
            item.device = agent == agents_.end() ? 0 : agent->second;
            item.stream = s.integer(10).value_or(s.integer(9).value_or(on.stream));
            item.process = thread_number(on.pid & 0xffffffff, 0);
            item.correlation = event(s).stack;
            item.bytes = std::max<int64_t>(s.integer(12).value_or(0), 0);
            const auto symbol = symbols_.find(or_none(s, 11));
            const std::string name = !kernels ? string(s.integer(11)) : symbol == symbols_.end() ? "" : symbol->second;
            item.name = model_.names.id(name.empty() ? std::string(to_string(kind)) : name);
            if (std::none_of(model_.devices.begin(), model_.devices.end(), [&](const Device& d) { return d.index == item.device; }))
              model_.devices.push_back({item.device, names_[item.device]});
            model_.activities.push_back(item);
            return true;
          });
  }

  // Calls of HIP are the host's; markers are ranges; HSA and what lies deeper happens inside those calls.
  void regions() {
    table("rocpd_region", timed({{"name_id"}}), [&](const Statement& s) {
      const auto span = sensible_span(time(s, 0, 2), time(s, 1, 3));
      if (!span) return false;
      const Event of = event(s);
      const Track on = track(s);
      const int64_t thread = thread_number(on.pid & 0xffffffff, on.tid), process = process_of(thread);
      const NameId name = model_.names.id(string(s.integer(8)));
      if (of.category.starts_with("MARKER") || of.category.starts_with("ROCTX"))
        model_.ranges.push_back({RangeKind::user, *span, name, process, thread});
      else if (of.category.empty() || of.category.starts_with("HIP"))
        model_.calls.push_back({call_kind(model_.names[name]), *span, name, process, thread, of.stack});
      return true;
    });
  }

  const SqliteFile& file_;
  TraceModel model_;
  std::string run_;
  std::unordered_map<int64_t, std::string> strings_, symbols_;
  std::unordered_map<int64_t, int64_t> agents_, timestamps_;
  std::unordered_map<int64_t, Track> tracks_;
  std::unordered_map<int64_t, Event> events_;
  std::map<int64_t, std::string> names_;
};

}  // namespace

Result<TraceModel> read_rocpd(const SqliteFile& file) { return Reader(file).read(); }

}  // namespace kl::trace
