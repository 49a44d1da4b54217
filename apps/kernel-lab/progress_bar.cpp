#include "progress_bar.hpp"

#include <lab/core/clock.hpp>
#include <lab/report/figures.hpp>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace kl::app {
namespace {

size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

void ProgressBar::draw(const ProgressStep& step) {
  if (!enabled_) return;
  const int64_t now = monotonic_ns();
  if (begun_ns_ == 0 || step.unit != unit_ || step.done < begun_at_) {
    begun_ns_ = now;
    begun_at_ = step.done;
    unit_ = step.unit;
  }
  const bool last = step.total > 0 && step.done >= step.total;
  if (drawn_ && !last && now - drawn_ns_ < 100'000'000) return;
  drawn_ns_ = now;
  std::string line = step.message;
  if (step.total > 0) {
    const double fraction = std::clamp(step.done / step.total, 0.0, 1.0);
    constexpr int kWidth = 20;
    const int filled = static_cast<int>(fraction * kWidth);
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < filled ? "━" : "─";
    line = fmt::format("{} {:.0f}/{:.0f} {}  {}", bar, step.done, step.total, step.unit, step.message);
    const double seconds = static_cast<double>(now - begun_ns_) * 1e-9;
    const double progressed = step.done - begun_at_;
    if (progressed > 0 && seconds > 0.5)
      line += fmt::format("  {:.1f} {}/s, {} left", progressed / seconds, step.unit,
                          duration_text(seconds / progressed * (step.total - step.done)));
  }
  const size_t columns = terminal_columns() - 1;
  while (line.size() > 1 && line.size() > columns + 2 * 20) line.pop_back();
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
  begun_ns_ = 0;
}

}  // namespace kl::app
