// Spans of time and sets of them: unions are what shares are made of, never sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kl::trace {

// Half open, integer nanoseconds; empty where end <= begin.
struct Span {
  int64_t begin = 0, end = 0;
  int64_t length() const { return end > begin ? end - begin : 0; }
  bool operator==(const Span&) const = default;
};

// A set of spans: sorted, disjoint, not touching, none empty.
using Spans = std::vector<Span>;

Spans union_of(std::vector<Span> any);  // of spans in any order, overlapping or not
Spans unite(std::span<const Span> a, std::span<const Span> b);
Spans intersect(std::span<const Span> a, std::span<const Span> b);
Spans subtract(std::span<const Span> a, std::span<const Span> b);
int64_t length(std::span<const Span> spans);

}  // namespace kl::trace
