// One shape at which the trainer calls a seam, as the trainer itself describes it.
#pragma once

#include <lab/core/record.hpp>

#include <map>
#include <string>
#include <vector>

namespace kl {

struct SeamShape {
  std::map<std::string, int64_t> axes;     // N, C, V …
  std::string dtype = "f32";
  std::map<std::string, double> scalars;   // eps, softcap …
  std::vector<std::string> absent;         // optional inputs the trainer does not pass
  std::map<std::string, std::vector<int64_t>> strides;  // elements; tensors not named are packed
  std::map<std::string, int64_t> calls_per_step;  // by operation; empty: each of the spec's, once

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("axes", self.axes, "length of each named axis");
    v("dtype", self.dtype, "element type of the T tensors");
    v("scalars", self.scalars, "scalar arguments");
    v("absent", self.absent, "optional inputs that are not passed");
    v("strides", self.strides, "elements, by tensor; those not named are packed");
    v("calls_per_step", self.calls_per_step, "calls in one training step, by operation");
  }

  int64_t calls_of(const std::string& operation) const {
    if (calls_per_step.empty()) return 1;
    const auto it = calls_per_step.find(operation);
    return it == calls_per_step.end() ? 0 : it->second;
  }
};

}  // namespace kl
