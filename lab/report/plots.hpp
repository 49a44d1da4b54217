// The drawings of a report, each from plain numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

// Points of a repeated comparison, one a row, and what follows from all of them.
struct IntervalPlot {
  struct Row {
    std::string label;
    double value = 0;                     // a fraction: 0.05 is 5 %
    std::optional<double> low, high;      // of an interval
    bool decides = false;
  };
  std::string axis;
  std::string left, right;                // what the two sides mean
  std::vector<Row> points, intervals;
  double band_low = 0, band_high = 0;     // effects that do not count
  std::string band;
};
std::string interval_plot(const IntervalPlot& plot, std::string_view words);

// Two arms in the same processes: every time as a speck, quartiles as a box, the median as a dot.
struct StripPlot {
  struct Arm {
    std::vector<double> times_ns;         // in the order they ran
    double q1_ns = 0, median_ns = 0, q3_ns = 0;
  };
  struct Process {
    std::string label;
    Arm baseline, candidate;
  };
  std::string axis;
  std::string baseline, candidate;        // names in the key
  std::vector<Process> processes;
};
// Specks beyond `strip_range` of all times are not drawn.
struct StripRange {
  double low_ns = 0, high_ns = 0;
  size_t beyond = 0;
};
StripRange strip_range(const StripPlot& plot);
std::string strip_plot(const StripPlot& plot, std::string_view words);

// Williams, Waterman, Patterson: "Roofline", CACM 52(4), 2009. One vertical a call, numbered.
struct RooflinePlot {
  struct Call {
    double flops_per_byte = 0;
    double baseline_gflops = 0, candidate_gflops = 0;
    std::optional<double> ceiling_gflops;  // of its own footprint and mix
  };
  std::vector<Call> calls;
  double memory_gb_per_s = 0;
  std::optional<double> peak_gflops;
  std::string baseline, candidate;
};
std::string roofline_plot(const RooflinePlot& plot, std::string_view words);

// One seam in a step, and below it, enlarged, what of it can be gained.
struct SharePlot {
  struct Part {
    std::string label;
    double share = 0;
  };
  std::string seam;
  double share = 0;
  std::vector<Part> others;               // the rest is not in any seam
  double gain_bound = 0, gain_needed = 0;
  std::optional<double> gain_seen;        // of the step's time
};
std::string share_plot(const SharePlot& plot, std::string_view words);

}  // namespace kl
