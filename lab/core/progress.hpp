// Progress of a long operation. Library code reports; only apps draw.
#pragma once

#include <functional>
#include <string>

namespace kl {

struct ProgressStep {
  double done = 0;        // in units of `total`
  double total = 0;       // 0: unknown
  std::string unit;       // "cases", "processes", "pairs"
  std::string message;    // what is happening now
};
using Progress = std::function<void(const ProgressStep&)>;

inline void report(const Progress& progress, ProgressStep step) {
  if (progress) progress(step);
}

}  // namespace kl
