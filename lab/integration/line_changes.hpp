// The price of a candidate: lines added to and removed from the kernel it would replace.
#pragma once

#include <lab/core/record.hpp>

#include <string_view>

namespace kl {

struct LineChanges {
  int64_t added = 0;
  int64_t removed = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("added", self.added, "lines of the candidate that the baseline lacks");
    v("removed", self.removed, "lines of the baseline that the candidate lacks");
  }
};

// By the longest common subsequence of lines.
LineChanges line_changes(std::string_view before, std::string_view after);

}  // namespace kl
