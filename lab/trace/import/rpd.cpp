// SQLite of rocmProfileData (.rpd): rocpd_op is the device's side, rocpd_api the host's, rocpd_api_ops joins them.
#include <lab/trace/import/import.hpp>

#include <lab/trace/import/sqlite_file.hpp>

#include <algorithm>
#include <unordered_map>

namespace kl::trace {
namespace {

// What an operation of the device is: "KernelExecution", "CopyHostToDevice", "FillBuffer", "Barrier" …
std::optional<ActivityKind> kind_of(std::string_view type) {
  if (type.starts_with("Copy") || type.find("Memcpy") != std::string_view::npos) return ActivityKind::copy;
  if (type.starts_with("Fill") || type.find("Memset") != std::string_view::npos) return ActivityKind::set;
  if (type.find("Marker") != std::string_view::npos || type.find("Barrier") != std::string_view::npos) return std::nullopt;
  return ActivityKind::kernel;
}

class Reader {
 public:
  explicit Reader(const SqliteFile& file) : file_(file) { model_.format = "rpd"; }

  Result<TraceModel> read() {
    if (!file_.cut_short().empty()) model_.gaps.push_back({GapKind::unreadable, 0, file_.cut_short()});
    file_.rows(model_, "rocpd_metadata", {{"tag"}, {"value"}}, [&](const Statement& s) {
      model_.metadata[s.text(0)] = s.text(1);
      return true;
    });
    model_.source_version = model_.metadata["schema_version"];
    model_.metadata.erase("schema_version");
    file_.rows(model_, "rocpd_string", {{"id"}, {"string"}}, [&](const Statement& s) {
      strings_[or_none(s, 0)] = model_.names.id(s.text(1));
      return true;
    });
    file_.rows(model_, "rocpd_api_ops", {{"api_id"}, {"op_id"}}, [&](const Statement& s) {
      api_of_op_.emplace(or_none(s, 1), or_none(s, 0));
      return true;
    });
    host();
    device();
    return finish(std::move(model_), file_.path());
  }

 private:
  NameId string(const std::optional<int64_t>& id) {
    const auto it = id ? strings_.find(*id) : strings_.end();
    return it == strings_.end() ? model_.names.id("") : it->second;
  }

  void host() {
    file_.rows(model_, "rocpd_api", {{"id"}, {"pid"}, {"tid"}, {"start"}, {"end"}, {"apiName_id"}, {"args_id", false}}, [&](const Statement& s) {
      const auto span = span_of(s, 3, 4);
      if (!span) return false;
      const int64_t thread = thread_number(s.integer(1).value_or(0) & 0xffffffff, s.integer(2).value_or(0)), process = process_of(thread);
      const NameId name = string(s.integer(5));
      const std::string& text = model_.names[name];
      processes_.emplace(or_none(s, 0), process);
      if (text == "UserMarker" || text.ends_with("rangePush") || text.ends_with("RangePush"))
        model_.ranges.push_back({RangeKind::user, *span, string(s.integer(6)), process, thread});
      else
        model_.calls.push_back({call_kind(text), *span, name, process, thread, or_none(s, 0)});
      return true;
    });
  }

  void device() {
    file_.rows(model_, "rocpd_op", {{"id"}, {"gpuId"}, {"queueId", false}, {"start"}, {"end"}, {"description_id"}, {"opType_id"}}, [&](const Statement& s) {
      const auto span = span_of(s, 3, 4);
      if (!span) return false;
      const NameId type = string(s.integer(6)), description = string(s.integer(5));
      const auto kind = kind_of(model_.names[type]);
      if (!kind) return true;
      DeviceActivity item;
      item.kind = *kind;
      item.span = *span;
      item.device = s.integer(1).value_or(0);
      item.stream = s.integer(2).value_or(0);
      item.name = model_.names[description].empty() ? type : description;
      if (const auto api = api_of_op_.find(or_none(s, 0)); api != api_of_op_.end()) {
        item.correlation = api->second;
        if (const auto process = processes_.find(api->second); process != processes_.end()) item.process = process->second;
      }
      model_.activities.push_back(item);
      return true;
    });
  }

  const SqliteFile& file_;
  TraceModel model_;
  std::unordered_map<int64_t, NameId> strings_;
  std::unordered_map<int64_t, int64_t> api_of_op_, processes_;
};

}  // namespace

Result<TraceModel> read_rpd(const SqliteFile& file) { return Reader(file).read(); }

}  // namespace kl::trace
