#include <lab/report/plots.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/svg.hpp>
#include <lab/stats/quantile.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kl {
namespace {

using svg::Canvas;
using svg::Point;
using svg::Scale;
using Anchor = svg::Canvas::Anchor;

constexpr double kWidth = 640;
constexpr double kLeft = 128;           // beside the rows' labels
constexpr double kRight = kWidth - 18;
constexpr double kRow = 21;

// As many decimals as tell neighbouring ticks apart.
int decimals_of(const std::vector<double>& percent_ticks) {
  const double step = percent_ticks.size() > 1 ? percent_ticks[1] - percent_ticks[0] : 1;
  return std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 3);
}

// Ticks with light lines up to `top`, and the axis' name below.
template <class Text>
void horizontal_axis(Canvas& canvas, const Scale& scale, double top, double bottom, std::string_view name, const Text& text) {
  for (const double tick : scale.ticks()) {
    canvas.line({scale(tick), top}, {scale(tick), bottom}, "grid");
    canvas.text({scale(tick), bottom + 17}, text(tick), "tick", Anchor::middle);
  }
  canvas.line({scale.start(), bottom}, {scale.end(), bottom}, "axis");
  canvas.text({(scale.start() + scale.end()) / 2, bottom + 38}, name, "label", Anchor::middle);
}

std::string interval_words(const IntervalPlot::Row& row) {
  std::string text = fmt::format("{}: {}", row.label, percent_text(row.value));
  if (row.low && row.high) text += fmt::format(" [{}, {}]", percent_text(*row.low), percent_text(*row.high));
  return text;
}

// Champion and candidate, each with its mark.
void key(Canvas& canvas, Point at, std::string_view baseline, std::string_view candidate) {
  canvas.dot({at.x + 5, at.y - 4}, 4.5, "baseline");
  canvas.text({at.x + 16, at.y}, baseline);
  canvas.dot({at.x + 235, at.y - 4}, 4.5, "candidate");
  canvas.text({at.x + 246, at.y}, candidate);
}

}  // namespace

std::string interval_plot(const IntervalPlot& plot, std::string_view words) {
  double low = std::min(0.0, plot.band_low), high = std::max(0.0, plot.band_high);
  const auto reach = [&](double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const auto* rows : {&plot.points, &plot.intervals})
    for (const auto& row : *rows) {
      reach(row.value);
      if (row.low) reach(*row.low);
      if (row.high) reach(*row.high);
    }
  const double pad = (high - low) * 0.05;
  const Scale x = Scale::linear((low - pad) * 100, (high + pad) * 100, kLeft, kRight);
  const auto at = [&](double fraction) { return x(fraction * 100); };

  const double top = 26;
  const double gap = plot.points.empty() || plot.intervals.empty() ? 0 : 12;
  const double bottom = top + gap + kRow * static_cast<double>(plot.points.size() + plot.intervals.size()) + 4;
  Canvas canvas(kWidth, bottom + 48);
  canvas.bar({at(plot.band_low), top}, at(plot.band_high) - at(plot.band_low), bottom - top, "band", plot.band);
  const double band_middle = std::clamp((at(plot.band_low) + at(plot.band_high)) / 2, kLeft + 90, kRight - 90);
  canvas.text({band_middle, top - 8}, plot.band, "tick", Anchor::middle);
  const int decimals = decimals_of(x.ticks());
  horizontal_axis(canvas, x, top, bottom, plot.axis, [&](double tick) { return tick == 0 ? "0 %" : percent_text(tick / 100, decimals); });
  canvas.text({kLeft, bottom + 38}, "← " + plot.left, "tick");
  canvas.text({kRight, bottom + 38}, plot.right + " →", "tick", Anchor::end);
  canvas.line({at(0), top}, {at(0), bottom}, "zero");

  double y = top + kRow / 2 + 2;
  for (const auto& row : plot.points) {
    canvas.text({kLeft - 10, y + 4}, row.label, "label", Anchor::end);
    canvas.dot({at(row.value), y}, 4.5, "candidate", interval_words(row));
    y += kRow;
  }
  y += gap;
  for (const auto& row : plot.intervals) {
    canvas.text({kLeft - 10, y + 4}, row.label, row.decides ? "label strong" : "label", Anchor::end);
    const char* kind = row.decides ? "interval decides" : "interval";
    if (row.low && row.high) {
      canvas.line({at(*row.low), y}, {at(*row.high), y}, kind, interval_words(row));
      for (const double end : {*row.low, *row.high}) canvas.line({at(end), y - 5}, {at(end), y + 5}, kind);
    }
    canvas.dot({at(row.value), y}, row.decides ? 5 : 3.5, "mean", interval_words(row));
    y += kRow;
  }
  return canvas.element(words);
}

StripRange strip_range(const StripPlot& plot) {
  std::vector<double> all;
  double low = INFINITY, high = -INFINITY;
  for (const auto& process : plot.processes)
    for (const auto* arm : {&process.baseline, &process.candidate}) {
      all.insert(all.end(), arm->times_ns.begin(), arm->times_ns.end());
      low = std::min(low, arm->q1_ns);
      high = std::max(high, arm->q3_ns);
    }
  StripRange range{low, high, 0};
  if (all.empty()) return range;
  std::sort(all.begin(), all.end());
  const auto rank = [&](double part) { return all[static_cast<size_t>(part * static_cast<double>(all.size() - 1))]; };
  range.low_ns = std::min(low, rank(0.01));
  range.high_ns = std::max(high, rank(0.97));
  for (const double time : all) range.beyond += time < range.low_ns || time > range.high_ns ? 1 : 0;
  return range;
}

std::string strip_plot(const StripPlot& plot, std::string_view words) {
  constexpr double kArm = 15, kProcess = 2 * kArm + 10;
  const StripRange range = strip_range(plot);
  const double unit = range.high_ns >= 1e6 ? 1e6 : 1e3;
  const double pad = (range.high_ns - range.low_ns) * 0.03;
  const Scale x = Scale::linear((range.low_ns - pad) / unit, (range.high_ns + pad) / unit, kLeft, kRight);
  const double top = 34, bottom = top + kProcess * static_cast<double>(plot.processes.size()) + 4;
  Canvas canvas(kWidth, bottom + 48);
  key(canvas, {kLeft, 18}, plot.baseline, plot.candidate);
  horizontal_axis(canvas, x, top, bottom, fmt::format("{}, {}", plot.axis, unit == 1e6 ? "ms" : "µs"),
                  [](double tick) { return fmt::format("{:g}", tick); });
  double y = top + kArm / 2 + 6;
  for (const auto& process : plot.processes) {
    canvas.text({kLeft - 10, y + kArm / 2 + 4}, process.label, "label", Anchor::end);
    for (const auto& [arm, kind] : {std::pair{&process.baseline, "baseline"}, {&process.candidate, "candidate"}}) {
      std::vector<Point> specks;
      for (size_t i = 0; i < arm->times_ns.size(); ++i) {
        if (arm->times_ns[i] < range.low_ns || arm->times_ns[i] > range.high_ns) continue;
        const double spread = static_cast<double>(i * 7 % 5) - 2;  // so that equal times lie beside each other
        specks.push_back({x(arm->times_ns[i] / unit), y + spread * 2.1});
      }
      canvas.specks(specks, fmt::format("specks {}", kind));
      const std::string told = fmt::format("{}, {}: median {}, quartiles {} and {}", process.label, kind,
                                           duration_text(arm->median_ns * 1e-9), duration_text(arm->q1_ns * 1e-9),
                                           duration_text(arm->q3_ns * 1e-9));
      const double left = x(arm->q1_ns / unit);
      canvas.bar({left, y - 4}, std::max(1.0, x(arm->q3_ns / unit) - left), 8, fmt::format("box {}", kind), told);
      canvas.dot({x(arm->median_ns / unit), y}, 4.5, kind, told);
      y += kArm;
    }
    y += kProcess - 2 * kArm;
  }
  return canvas.element(words);
}

std::string roofline_plot(const RooflinePlot& plot, std::string_view words) {
  double least = INFINITY, most = 0, lowest = INFINITY, highest = 0;
  for (const auto& call : plot.calls) {
    least = std::min(least, call.flops_per_byte);
    most = std::max(most, call.flops_per_byte);
    lowest = std::min({lowest, call.baseline_gflops, call.candidate_gflops});
    highest = std::max({highest, call.baseline_gflops, call.candidate_gflops, call.ceiling_gflops.value_or(0)});
  }
  const double ridge = plot.peak_gflops ? *plot.peak_gflops / plot.memory_gb_per_s : most * 3;
  const double from = least / 4, to = std::max(ridge, most) * 3;
  const double roof = plot.peak_gflops.value_or(plot.memory_gb_per_s * to);
  const double left = 64, top = 34, bottom = 316;
  const Scale x = Scale::logarithmic(from, to, left, kRight);
  const Scale y = Scale::logarithmic(std::min(lowest / 2, plot.memory_gb_per_s * from), std::max(roof, highest) * 2, bottom, top);
  Canvas canvas(kWidth, bottom + 48);
  key(canvas, {left, 18}, plot.baseline, plot.candidate);
  for (const double tick : y.ticks()) {
    canvas.line({left, y(tick)}, {kRight, y(tick)}, "grid");
    canvas.text({left - 8, y(tick) + 4}, fmt::format("{:g}", tick), "tick", Anchor::end);
  }
  horizontal_axis(canvas, x, top, bottom, "operations a byte", [](double tick) { return fmt::format("{:g}", tick); });
  canvas.line({left, top}, {left, bottom}, "axis");
  canvas.text({left + 6, top + 14}, "GFLOP/s", "tick");

  const std::string memory = fmt::format("memory {:.1f} GB/s", plot.memory_gb_per_s);
  const double end = plot.peak_gflops ? std::min(ridge, to) : to;
  canvas.line({x(from), y(plot.memory_gb_per_s * from)}, {x(end), y(plot.memory_gb_per_s * end)}, "roof", memory);
  // Below the slope, where no call's vertical can be.
  const double label_at = std::sqrt(std::max(most, from) * end);
  canvas.text({x(label_at) + 12, y(plot.memory_gb_per_s * label_at) + 18}, memory);
  if (plot.peak_gflops) {
    const std::string peak = fmt::format("matrix product {:.0f} GFLOP/s", *plot.peak_gflops);
    canvas.line({x(ridge), y(*plot.peak_gflops)}, {kRight, y(*plot.peak_gflops)}, "roof", peak);
    canvas.text({kRight - 4, y(*plot.peak_gflops) - 9}, peak, "label", Anchor::end);
  }
  for (size_t i = 0; i < plot.calls.size(); ++i) {
    const auto& call = plot.calls[i];
    const double at = x(call.flops_per_byte);
    const double above = std::max({call.baseline_gflops, call.candidate_gflops, call.ceiling_gflops.value_or(0)});
    canvas.line({at, y(std::min(call.baseline_gflops, call.candidate_gflops))}, {at, y(above)}, "stem");
    if (call.ceiling_gflops)
      canvas.line({at - 9, y(*call.ceiling_gflops)}, {at + 9, y(*call.ceiling_gflops)}, "ceiling",
                  fmt::format("{}: ceiling of its footprint and mix {:.2f} GFLOP/s", i + 1, *call.ceiling_gflops));
    canvas.dot({at, y(call.baseline_gflops)}, 4.5, "baseline", fmt::format("{}: {} {:.2f} GFLOP/s", i + 1, plot.baseline, call.baseline_gflops));
    canvas.dot({at, y(call.candidate_gflops)}, 4.5, "candidate",
               fmt::format("{}: {} {:.2f} GFLOP/s", i + 1, plot.candidate, call.candidate_gflops));
    canvas.text({at, y(std::min(call.baseline_gflops, call.candidate_gflops)) + 20}, std::to_string(i + 1), "label", Anchor::middle);
  }
  return canvas.element(words);
}

std::string share_plot(const SharePlot& plot, std::string_view words) {
  constexpr double kLeftEdge = 14, kBar = 26;
  const Scale step = Scale::linear(0, 1, kLeftEdge, kRight);
  const double zoom_to = std::max({plot.share, plot.gain_needed, plot.gain_bound, plot.gain_seen.value_or(0)}) * 1.12;
  const Scale zoom = Scale::linear(0, zoom_to * 100, kLeftEdge, kRight);
  const auto at = [&](double share) { return zoom(share * 100); };
  const double top = 26, second = 112, bottom = second + kBar + 34;
  Canvas canvas(kWidth, bottom + 48);

  canvas.text({kLeftEdge, top - 9}, fmt::format("{} {} of the step", plot.seam, share_text(plot.share, 2)), "label strong");
  double used = 0;
  const auto part = [&](const std::string& label, double share, const char* kind) {
    canvas.bar({step(used), top}, std::max(0.0, step(used + share) - step(used) - 1), kBar, kind,
               fmt::format("{} {}", label, share_text(share, used > 0 ? 1 : 2)));
    used += share;
  };
  part(plot.seam, plot.share, "seam");
  for (const auto& other : plot.others) part(other.label, other.share, "other");
  if (used < 1) part("in no seam", 1 - used, "rest");
  canvas.line({step(0), top + kBar}, {at(0), second}, "zoom");
  canvas.line({step(plot.share), top + kBar}, {at(plot.share), second}, "zoom");

  const bool gains = plot.gain_bound > 0;
  canvas.text({kLeftEdge, second - 9}, fmt::format("at most {} to gain", share_text(plot.gain_bound, 2)), "label strong");
  if (gains)
    canvas.bar({at(0), second}, at(plot.gain_bound) - at(0), kBar, "gain",
               fmt::format("at most {} of the step to gain", share_text(plot.gain_bound, 2)));
  const double rest = std::max(0.0, plot.gain_bound);
  if (plot.share > rest)
    canvas.bar({at(rest), second}, at(plot.share) - at(rest), kBar, "kept",
               fmt::format("{} of the step that stays", share_text(plot.share - rest, 2)));
  const auto mark = [&](double value, const std::string& text, const char* kind, double below) {
    canvas.line({at(value), second - 4}, {at(value), second + kBar + below - 11}, kind, text);
    const bool flip = at(value) > kWidth * 0.6;
    canvas.text({at(value) + (flip ? -5 : 5), second + kBar + below}, text, "tick", flip ? Anchor::end : Anchor::start);
  };
  mark(plot.gain_needed, fmt::format("needed {}", share_text(plot.gain_needed, 2)), "needed", 15);
  if (plot.gain_seen) mark(*plot.gain_seen, fmt::format("seen {}", share_text(*plot.gain_seen, 2)), "seen", 30);
  horizontal_axis(canvas, zoom, bottom, bottom, "of the step's time",
                  [decimals = decimals_of(zoom.ticks())](double tick) { return share_text(tick / 100, decimals); });
  return canvas.element(words);
}

}  // namespace kl
