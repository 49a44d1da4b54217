#include <lab/stats/control_check.hpp>

#include <lab/stats/pooled_t.hpp>

namespace kl::stats {

ControlCheck check_controls(std::span<const double> champion_arm, std::span<const double> controls,
                            double delta) {
  ControlCheck check;
  check.shift = pooled_t_interval(controls, champion_arm, 0.95).interval;
  check.disturbed = check.shift.below(-delta) || check.shift.above(delta);
  return check;
}

}  // namespace kl::stats
