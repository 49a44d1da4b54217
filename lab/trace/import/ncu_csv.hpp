// CSV of Nsight Compute (ncu --csv): kernels and their metrics, one metric a row (details page) or a column (raw page).
#pragma once

#include <lab/trace/model.hpp>

#include <lab/core/result.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kl::trace {

struct NcuMetric {
  std::string name, unit, section;  // the section where the page has them; one name may come with two units
  std::string text;                 // as printed
  std::optional<double> value;      // nothing for text and for "n/a"
};

struct NcuKernel {
  int64_t id = 0, process = 0, device = 0, stream = 0;
  std::string name, compute_capability;
  std::vector<NcuMetric> metrics;

  // The first of that name with a value; nullptr: none.
  const NcuMetric* find(std::string_view name) const;
  // gpu__time_duration.sum, or what the details page calls Duration.
  std::optional<int64_t> duration_ns() const;
};

struct NcuReport {
  std::vector<NcuKernel> kernels;  // in the order in which they ran
  std::vector<Gap> gaps;
};

// Errors: `no_permission` where the tool said so, `insufficient_trace_data` without a kernel, `insufficient_metrics`
// where no metric of any kernel has a value.
Result<NcuReport> read_ncu_report(const std::filesystem::path& path);

}  // namespace kl::trace
