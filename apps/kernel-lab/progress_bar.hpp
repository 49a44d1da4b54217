// A progress line on stderr with rate and time left; erased when the work is done.
#pragma once

#include <lab/core/progress.hpp>

#include <cstdint>
#include <string>

namespace kl::app {

class ProgressBar {
 public:
  explicit ProgressBar(bool enabled) : enabled_(enabled) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void draw(const ProgressStep& step);
  void clear();

 private:
  bool enabled_;
  bool drawn_ = false;
  int64_t begun_ns_ = 0;
  int64_t drawn_ns_ = 0;
  double begun_at_ = 0;
  std::string unit_;
};

}  // namespace kl::app
