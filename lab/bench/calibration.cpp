#include <lab/bench/calibration.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace kl {
namespace {

using Curve = std::map<double, double>;  // argument → value

// Piecewise linear, constant outside the measured range.
double interpolate(const Curve& curve, double at) {
  const auto above = curve.lower_bound(at);
  if (above == curve.begin()) return above->second;
  if (above == curve.end()) return std::prev(above)->second;
  const auto below = std::prev(above);
  const double t = (at - below->first) / (above->first - below->first);
  return below->second + t * (above->second - below->second);
}

}  // namespace

std::optional<double> ceiling_gb_per_s(const std::vector<Ceiling>& ceilings,
                                       double footprint_bytes, double read_fraction, bool cold) {
  std::map<double, Curve> by_mix;  // read fraction → log footprint → GB/s
  for (const Ceiling& c : ceilings)
    if (c.cold == cold && c.gb_per_s > 0 && c.footprint_bytes > 0)
      by_mix[c.read_fraction][std::log(static_cast<double>(c.footprint_bytes))] = c.gb_per_s;
  if (by_mix.empty() || !(footprint_bytes > 0)) return std::nullopt;
  Curve at_footprint;
  for (const auto& [mix, curve] : by_mix)
    at_footprint[mix] = interpolate(curve, std::log(footprint_bytes));
  return interpolate(at_footprint, std::clamp(read_fraction, 0.0, 1.0));
}

std::optional<double> ceiling_gb_per_s(const Calibration& calibration, double footprint_bytes,
                                       double read_fraction, bool cold) {
  return ceiling_gb_per_s(calibration.ceilings, footprint_bytes, read_fraction, cold);
}

}  // namespace kl
