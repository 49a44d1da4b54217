// CSV of `nsys stats`: one report after another, each under its header, with lines for people between them.
#include <lab/trace/import/import.hpp>

#include <lab/trace/import/csv.hpp>
#include <lab/trace/import/decimal.hpp>
#include <lab/trace/import/finish.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace kl::trace {
namespace {

// A column's name without its unit: "total time" and "ns" of "Total Time (ns)".
struct Title {
  std::string name, unit;
};

Title title_of(std::string_view text) {
  Title title;
  const size_t open = text.find('(');
  if (open != std::string_view::npos && text.ends_with(')')) title.unit = text.substr(open + 1, text.size() - open - 2);
  for (const char c : text.substr(0, open)) title.name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  while (!title.name.empty() && title.name.back() == ' ') title.name.pop_back();
  while (!title.name.empty() && title.name.front() == ' ') title.name.erase(0, 1);
  return title;
}

enum class Report { none, kernels, copies, calls, ranges, device_trace, call_trace, other };

class Importer {
 public:
  explicit Importer(std::filesystem::path path) : path_(std::move(path)) { model_.format = "nsys-stats"; }

  Result<TraceModel> read() {
    KL_TRY(ByteStream bytes, ByteStream::open(path_));
    CsvStream csv(std::move(bytes));
    CsvRow row;
    while (csv.next(row)) {
      if (row.size() == 1 && row[0].find(';') != std::string::npos && row[0].find("Time") != std::string::npos) split_by_semicolon(csv, row);
      if (const Report next = report_of(row); next != Report::none) begin(next, row);
      else if (row.size() < 3 || row.size() != titles_.size()) between(row);
      else if (report_ != Report::none) take(row);
    }
    if (!csv.broken().empty())
      model_.gaps.push_back({GapKind::unreadable, 0, fmt::format("{} after line {}", csv.broken(), csv.line())});
    add_left_out(model_, "reports", senseless_, rows_);
    if (!kernels_seen_ && model_.activities.empty())
      return make_error(Status::missing_profiler_summary,
                        fmt::format("{} holds no report on kernels{}{}", path_.string(),
                                    others_.empty() ? "" : fmt::format(", only {}", others_), skipped_.empty() ? "" : fmt::format("; nsys said: {}", skipped_)),
                        "nsys stats --report cuda_gpu_kern_sum --format csv FILE");
    if (!model_.activities.empty()) model_.totals.clear();  // the same work, told twice
    find_processes(model_);
    if (model_.activities.empty() && model_.totals.empty())
      return make_error(Status::insufficient_trace_data,
                        fmt::format("{}: the report on kernels has no rows{}", path_.string(), skipped_.empty() ? "" : "; nsys said: " + skipped_),
                        "capture it again, with --trace=cuda");
    return finish(std::move(model_), path_);
  }

 private:
  static void split_by_semicolon(CsvStream& csv, CsvRow& row) {
    csv.separate_by(';');
    const std::string whole = row[0];
    row.assign(1, "");
    for (const char c : whole)
      if (c == ';') row.emplace_back();
      else if (c != '"') row.back() += c;
  }

  std::optional<size_t> column(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names)
      for (size_t i = 0; i < titles_.size(); ++i)
        if (titles_[i].name == name) return i;
    return std::nullopt;
  }

  // By what its header says: names of reports differ between versions, and may not be printed at all.
  static Report report_of(const CsvRow& row) {
    if (row.size() < 3) return Report::none;
    std::vector<std::string> names;
    for (const std::string& cell : row) names.push_back(title_of(cell).name);
    const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
    if (has("start") && has("duration") && has("name")) return has("pid") || has("tid") ? Report::call_trace : Report::device_trace;
    if (!has("total time")) return has("total") && (has("count") || has("operations")) ? Report::other : Report::none;
    if (has("range") || has("style")) return Report::ranges;
    if (has("operation")) return Report::copies;
    if (has("num calls")) return Report::calls;
    return has("name") || has("kernel name") ? Report::kernels : Report::other;
  }

  void begin(Report report, const CsvRow& header) {
    titles_.clear();
    for (const std::string& cell : header) titles_.push_back(title_of(cell));
    report_ = report;
    // A second report on the same kernels (by grid and block) would count them twice.
    if (report == Report::kernels && kernels_seen_) report_ = Report::other;
    kernels_seen_ = kernels_seen_ || report == Report::kernels || report == Report::device_trace;
    const std::string_view what = report == Report::calls ? "API calls" : report == Report::ranges ? "ranges" : report == Report::copies ? "copies" : "";
    if (!what.empty() && others_.find(what) == std::string::npos) others_ += fmt::format("{}{}", others_.empty() ? "" : ", ", what);
  }

  void between(const CsvRow& row) {
    if (row.size() == 1 && row[0].starts_with("SKIPPED")) skipped_ = row[0].substr(0, 200);
    if (row.size() == 1 && row[0].empty()) report_ = Report::none;
    if (row.size() < 3 || report_ == Report::none || report_ == Report::other) return;
    ++rows_;
    ++senseless_;
  }

  std::optional<int64_t> time(const CsvRow& row, const std::optional<size_t>& at) {
    if (!at) return std::nullopt;
    // Before units were printed, they were nanoseconds.
    const auto places = titles_[*at].unit.empty() ? std::optional(0) : places_of_unit(titles_[*at].unit);
    return places ? grouped_decimal(row[*at], *places, decimal_comma_) : std::nullopt;
  }
  std::optional<int64_t> count(const CsvRow& row, const std::optional<size_t>& at) const {
    if (!at) return std::nullopt;
    std::string digits;
    for (const char c : row[*at])
      if (c != ',' && c != '.' && c != ' ') digits += c;
    return scaled_decimal(digits, 0);
  }

  void take(const CsvRow& row) {
    if (report_ == Report::kernels || report_ == Report::copies) total(row);
    else if (report_ == Report::device_trace) activity(row);
    else if (report_ == Report::call_trace) call(row);
  }

  void total(const CsvRow& row) {
    ++rows_;
    // "45,3" percent: the decimal mark of the whole file.
    if (const auto share = column({"time"}); share && row[*share].find('.') == std::string::npos && row[*share].find(',') != std::string::npos)
      decimal_comma_ = true;
    const auto name = column({"name", "kernel name", "operation"});
    const auto ns = time(row, column({"total time"})), runs = count(row, column({"instances", "count", "calls", "operations"}));
    if (!name || !ns || !runs || *ns < 0 || *runs < 0) {
      ++senseless_;
      return;
    }
    const bool set = row[*name].find("emset") != std::string::npos;
    const ActivityKind kind = report_ == Report::kernels ? ActivityKind::kernel : set ? ActivityKind::set : ActivityKind::copy;
    model_.totals.push_back({kind, model_.names.id(row[*name]), *runs, *ns});
  }

  std::optional<Span> span(const CsvRow& row) {
    ++rows_;
    const auto begin = time(row, column({"start"})), length = time(row, column({"duration"}));
    int64_t end = 0;
    if (begin && length && !__builtin_add_overflow(*begin, *length, &end))
      if (const auto found = sensible_span(begin, end)) return found;
    ++senseless_;
    return std::nullopt;
  }

  void activity(const CsvRow& row) {
    const auto at = span(row);
    const auto name = column({"name"});
    if (!at || !name) return;
    DeviceActivity item;
    item.span = *at;
    item.name = model_.names.id(row[*name]);
    if (row[*name].starts_with("[CUDA memcpy") || row[*name].starts_with("[CUDA Unified Memory memcpy")) item.kind = ActivityKind::copy;
    if (row[*name].starts_with("[CUDA memset")) item.kind = ActivityKind::set;
    item.correlation = count(row, column({"corrid"})).value_or(kNone);
    item.stream = count(row, column({"strm", "stream"})).value_or(0);
    // "NVIDIA A100 (0)"
    if (const auto device = column({"device"})) {
      const std::string& text = row[*device];
      const size_t open = text.rfind('(');
      const auto index = open == std::string::npos ? std::nullopt : scaled_decimal(std::string_view(text).substr(open + 1, text.find(')', open) - open - 1), 0);
      item.device = index.value_or(0);
      if (std::none_of(model_.devices.begin(), model_.devices.end(), [&](const Device& d) { return d.index == item.device; }))
        model_.devices.push_back({item.device, open == std::string::npos ? text : text.substr(0, open - (open > 0))});
    }
    model_.activities.push_back(item);
  }

  void call(const CsvRow& row) {
    const auto at = span(row);
    const auto name = column({"name"});
    if (!at || !name) return;
    const int64_t thread = thread_number(count(row, column({"pid"})).value_or(0) & 0xffffffff, count(row, column({"tid"})).value_or(0));
    model_.calls.push_back({call_kind(row[*name]), *at, model_.names.id(row[*name]), process_of(thread), thread,
                            count(row, column({"corrid"})).value_or(kNone)});
  }

  const std::filesystem::path path_;
  TraceModel model_;
  std::vector<Title> titles_;
  Report report_ = Report::none;
  bool kernels_seen_ = false, decimal_comma_ = false;
  int64_t rows_ = 0, senseless_ = 0;
  std::string skipped_, others_;
};

}  // namespace

Result<TraceModel> read_nsys_stats(const std::filesystem::path& path) { return Importer(path).read(); }

}  // namespace kl::trace
