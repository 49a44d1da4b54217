// CSV of rocprofv3, a report a file: kernels, copies, calls and markers with their times; counters; sums by name.
#include <lab/trace/import/import.hpp>

#include <lab/trace/import/csv.hpp>
#include <lab/trace/import/decimal.hpp>
#include <lab/trace/import/finish.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace kl::trace {
namespace {

// Columns under their names in rocprofv3, and in rocprof before it.
constexpr std::string_view kBegin[] = {"Start_Timestamp", "BeginNs"};
constexpr std::string_view kEnd[] = {"End_Timestamp", "EndNs"};
constexpr std::string_view kKernel[] = {"Kernel_Name", "KernelName"};
constexpr std::string_view kAgent[] = {"Agent_Id", "gpu-id"};
constexpr std::string_view kQueue[] = {"Stream_Id", "Queue_Id", "queue-id"};

class Importer {
 public:
  explicit Importer(std::filesystem::path path) : path_(std::move(path)) { model_.format = "rocprof"; }

  Result<TraceModel> read() {
    KL_TRY(ByteStream bytes, ByteStream::open(path_));
    CsvStream csv(std::move(bytes));
    CsvRow row;
    while (header_.names().empty() && csv.next(row))
      if (row.size() > 2) header_ = CsvHeader(row);
    const bool timed = has(kBegin) && has(kEnd), sums = header_.has("TotalDurationNs");
    if (!timed && !sums) return timeless();
    while (csv.next(row)) {
      if (row.size() == 1 && row[0].empty()) continue;
      ++rows_;
      const bool good = row.size() == header_.names().size() && (sums ? total(row) : line(row));
      if (!good) ++senseless_;
    }
    if (!csv.broken().empty())
      model_.gaps.push_back({GapKind::unreadable, 0, fmt::format("{} after line {}", csv.broken(), csv.line())});
    add_left_out(model_, "rows", senseless_, rows_);
    find_processes(model_);
    return finish(std::move(model_), path_);
  }

 private:
  template <size_t N>
  bool has(const std::string_view (&names)[N]) const {
    return std::any_of(std::begin(names), std::end(names), [&](std::string_view name) { return header_.has(name); });
  }
  template <size_t N>
  std::string_view cell(const CsvRow& row, const std::string_view (&names)[N]) const {
    for (const std::string_view name : names)
      if (header_.has(name)) return header_.cell(row, name);
    return {};
  }
  // "4", or "Agent 4" of later versions.
  static std::optional<int64_t> integer(std::string_view text) {
    const size_t space = text.rfind(' ');
    return scaled_decimal(space == std::string_view::npos ? text : text.substr(space + 1), 0);
  }

  Error timeless() const {
    if (header_.has("Counter_Name") && header_.has("Kernel_Name"))
      return make_error(Status::insufficient_trace_data, fmt::format("{} holds counters by kernel, but no times", path_.string()),
                        "capture with --kernel-trace, and name its file");
    std::string missing = has(kBegin) ? std::string(kEnd[0]) : std::string(kBegin[0]);
    return make_error(Status::insufficient_trace_data, fmt::format("{} has no column {}", path_.string(), missing), "export it again, with its header");
  }

  bool line(const CsvRow& row) {
    const auto span = sensible_span(scaled_decimal(cell(row, kBegin), 0), scaled_decimal(cell(row, kEnd), 0));
    if (!span) return false;
    if (has(kKernel)) return kernel(row, *span);
    if (header_.has("Direction")) return copy(row, *span);
    if (header_.has("Function")) return call(row, *span);
    return false;
  }

  int64_t correlation(const CsvRow& row) const {
    const int64_t id = integer(header_.cell(row, "Correlation_Id")).value_or(0);
    return id == 0 ? kNone : id;
  }
  int64_t thread(const CsvRow& row) const {
    return thread_number(integer(header_.cell(row, "Process_Id")).value_or(0) & 0xffffffff, integer(header_.cell(row, "Thread_Id")).value_or(0));
  }

  bool kernel(const CsvRow& row, const Span& span) {
    // Counters come in one row each: a dispatch is one kernel.
    if (header_.has("Counter_Name"))
      if (const auto dispatch = integer(header_.cell(row, "Dispatch_Id")); dispatch && !dispatches_.insert(*dispatch).second) return true;
    DeviceActivity item;
    item.span = span;
    item.name = model_.names.id(cell(row, kKernel));
    item.device = integer(cell(row, kAgent)).value_or(0);
    item.stream = integer(cell(row, kQueue)).value_or(0);
    item.correlation = correlation(row);
    item.process = process_of(thread(row));
    model_.activities.push_back(item);
    return true;
  }

  bool copy(const CsvRow& row, const Span& span) {
    DeviceActivity item;
    item.kind = ActivityKind::copy;
    item.span = span;
    const std::string_view direction = header_.cell(row, "Direction");
    item.name = model_.names.id(direction);
    const bool to_host = direction.ends_with("DEVICE_TO_HOST");
    item.device = integer(header_.cell(row, to_host ? "Source_Agent_Id" : "Destination_Agent_Id")).value_or(0);
    item.stream = integer(cell(row, kQueue)).value_or(0);
    item.correlation = correlation(row);
    model_.activities.push_back(item);
    return true;
  }

  // Calls of HIP are the host's; markers are ranges; HSA's calls happen inside HIP's.
  bool call(const CsvRow& row, const Span& span) {
    const std::string_view domain = header_.cell(row, "Domain");
    const NameId name = model_.names.id(header_.cell(row, "Function"));
    const int64_t id = thread(row);
    if (domain.starts_with("MARKER")) model_.ranges.push_back({RangeKind::user, span, name, process_of(id), id});
    else if (domain.empty() || domain.starts_with("HIP"))
      model_.calls.push_back({call_kind(model_.names[name]), span, name, process_of(id), id, correlation(row)});
    return true;
  }

  bool total(const CsvRow& row) {
    const auto runs = integer(header_.cell(row, "Calls")), ns = integer(header_.cell(row, "TotalDurationNs"));
    const std::string_view name = header_.cell(row, "Name");
    if (!runs || !ns || *runs < 0 || *ns < 0) return false;
    const bool copies = name.starts_with("MEMORY_COPY");
    model_.totals.push_back({copies ? ActivityKind::copy : ActivityKind::kernel, model_.names.id(name), *runs, *ns});
    return true;
  }

  const std::filesystem::path path_;
  TraceModel model_;
  CsvHeader header_;
  std::unordered_set<int64_t> dispatches_;
  int64_t rows_ = 0, senseless_ = 0;
};

}  // namespace

Result<TraceModel> read_rocprof_csv(const std::filesystem::path& path) { return Importer(path).read(); }

}  // namespace kl::trace
