#include <lab/trace/import/ncu_csv.hpp>

#include <lab/trace/import/csv.hpp>
#include <lab/trace/import/decimal.hpp>
#include <lab/trace/import/finish.hpp>
#include <lab/trace/import/import.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace kl::trace {
namespace {

// What describes a launch; every other column of the raw page is a metric.
constexpr std::array<std::string_view, 14> kLaunch = {"ID",      "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
                                                      "Stream",  "Block Size", "Grid Size",    "Device",    "CC",          "Time",        "Domain"};

bool is_launch(std::string_view column) { return std::find(kLaunch.begin(), kLaunch.end(), column) != kLaunch.end(); }

// Numbers are printed with thousands separators; anything else ("CachePreferNone", "0x3", "n/a", "1; 2") is text.
std::optional<double> number(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (c != ',') plain += c;
  double value = 0;
  const auto [end, code] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (plain.empty() || code != std::errc() || end != plain.data() + plain.size()) return std::nullopt;
  if (!(value - value == 0)) return std::nullopt;  // "nan", "inf": the tool had none
  return value;
}

class Importer {
 public:
  explicit Importer(std::filesystem::path path) : path_(std::move(path)) {}

  Result<NcuReport> read() {
    KL_TRY(ByteStream bytes, ByteStream::open(path_));
    CsvStream csv(std::move(bytes));
    CsvRow row;
    while (csv.next(row)) {
      if (row.size() < 3) said(row);
      else if (row[0] == "ID" && std::find(row.begin(), row.end(), "Kernel Name") != row.end()) begin(row);
      else if (header_.names().empty()) continue;
      else if (row[0].empty() && wide_) units_ = row;
      else take(row);
    }
    if (!csv.broken().empty())
      report_.gaps.push_back({GapKind::unreadable, 0, fmt::format("{} after line {}", csv.broken(), csv.line())});
    if (senseless_ > 0)
      report_.gaps.push_back({GapKind::unreadable, senseless_, fmt::format("{} rows left out (no number where their id should be, or too few cells)", senseless_)});
    return judged();
  }

 private:
  void said(const CsvRow& row) {
    if (row[0].find("ERR_NVGPUCTRPERM") != std::string::npos) no_permission_ = true;
    if (row[0].starts_with("==ERROR==") || row[0].starts_with("==WARNING== No kernels")) message_ = row[0].substr(0, 300);
  }

  void begin(const CsvRow& row) {
    header_ = CsvHeader(row);
    wide_ = !header_.has("Metric Name");
    units_.clear();
  }

  int64_t integer(const CsvRow& row, std::string_view column) const { return scaled_decimal(header_.cell(row, column), 0).value_or(0); }

  void take(const CsvRow& row) {
    const auto id = scaled_decimal(row[0], 0);
    if (!id || (wide_ && row.size() < header_.names().size())) {
      ++senseless_;
      return;
    }
    NcuKernel& kernel = kernel_of(*id, row);
    if (wide_) {
      for (size_t i = 0; i < header_.names().size(); ++i)
        if (!is_launch(header_.names()[i])) add(kernel, header_.names()[i], i < units_.size() ? units_[i] : "", "", row[i]);
    } else if (const std::string_view name = header_.cell(row, "Metric Name"); !name.empty()) {  // else a rule's advice
      add(kernel, name, header_.cell(row, "Metric Unit"), header_.cell(row, "Section Name"), header_.cell(row, "Metric Value"));
    }
  }

  // Rows of one launch follow each other. Ids begin anew with each process.
  NcuKernel& kernel_of(int64_t id, const CsvRow& row) {
    const int64_t process = integer(row, "Process ID");
    if (report_.kernels.empty() || wide_ || report_.kernels.back().id != id || report_.kernels.back().process != process) {
      NcuKernel kernel{id, process, integer(row, "Device"), integer(row, "Stream"), std::string(header_.cell(row, "Kernel Name")),
                       std::string(header_.cell(row, "CC")), {}};
      report_.kernels.push_back(std::move(kernel));
    }
    return report_.kernels.back();
  }

  void add(NcuKernel& kernel, std::string_view name, std::string_view unit, std::string_view section, std::string_view text) {
    NcuMetric metric{std::string(name), std::string(unit), std::string(section), std::string(text), number(text)};
    // What describes the device says nothing about the kernel.
    any_value_ = any_value_ || (metric.value && !name.starts_with("device__") && !name.starts_with("launch__") && !name.starts_with("c2clink__"));
    kernel.metrics.push_back(std::move(metric));
  }

  Result<NcuReport> judged() {
    if (no_permission_ && !any_value_)
      return make_error(Status::no_permission, fmt::format("{}: Nsight Compute may not read counters (ERR_NVGPUCTRPERM)", path_.string()),
                        "run it as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0");
    if (report_.kernels.empty())
      return make_error(Status::insufficient_trace_data,
                        fmt::format("{} holds no profiled kernel{}", path_.string(), message_.empty() ? "" : "; the tool said: " + message_),
                        "profile again: a name filter or a launch window may have matched nothing");
    if (!any_value_)
      return make_error(Status::insufficient_metrics,
                        fmt::format("{}: no metric of its {} kernels has a value", path_.string(), report_.kernels.size()),
                        "ask for metrics that this chip has: ncu --query-metrics");
    return std::move(report_);
  }

  const std::filesystem::path path_;
  NcuReport report_;
  CsvHeader header_;
  CsvRow units_;
  bool wide_ = false, any_value_ = false, no_permission_ = false;
  int64_t senseless_ = 0;
  std::string message_;
};

}  // namespace

const NcuMetric* NcuKernel::find(std::string_view wanted) const {
  for (const NcuMetric& metric : metrics)
    if (metric.name == wanted && metric.value) return &metric;
  return nullptr;
}

std::optional<int64_t> NcuKernel::duration_ns() const {
  const NcuMetric* found = find("gpu__time_duration.sum");
  if (found == nullptr) found = find("Duration");
  if (found == nullptr) return std::nullopt;
  const auto places = places_of_unit(found->unit);
  std::string plain;
  for (const char c : found->text)
    if (c != ',') plain += c;
  const auto ns = places ? scaled_decimal(plain, *places) : std::nullopt;
  return ns && *ns >= 0 ? ns : std::nullopt;
}

Result<NcuReport> read_ncu_report(const std::filesystem::path& path) { return Importer(path).read(); }

Result<TraceModel> read_ncu_csv(const std::filesystem::path& path) {
  KL_TRY(const NcuReport report, read_ncu_report(path));
  TraceModel model;
  model.format = "ncu";
  model.gaps = report.gaps;
  int64_t timeless = 0;
  for (const NcuKernel& kernel : report.kernels) {
    const auto ns = kernel.duration_ns();
    if (ns) model.totals.push_back({ActivityKind::kernel, model.names.id(kernel.name), 1, *ns});
    else ++timeless;
  }
  if (model.totals.empty())
    return make_error(Status::insufficient_trace_data,
                      fmt::format("{}: none of its {} kernels has a duration", path.string(), report.kernels.size()),
                      "profile with --metrics gpu__time_duration.sum, too");
  if (timeless > 0) model.gaps.push_back({GapKind::unreadable, timeless, fmt::format("{} kernels have no duration", timeless)});
  add_gap(model, GapKind::no_timeline, "kernels profiled one by one: neither idle time nor overlap is known, and replays are no step");
  return finish(std::move(model), path);
}

}  // namespace kl::trace
