// Spans of time and sets of them: unions are what shares are made of, never sums.
#pragma once

#include <algorithm>
#include <cstddef>
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
Spans unite(Spans a, Spans b);
Spans intersect(std::span<const Span> a, std::span<const Span> b);
Spans subtract(std::span<const Span> a, std::span<const Span> b);
int64_t length(std::span<const Span> spans);

// The first of `size` sorted items that is not `below`, quickly found near `hint`; below(index).
template <class Below>
size_t lower_bound_from(size_t size, size_t hint, Below below) {
  if (hint > size || (hint > 0 && !below(hint - 1))) hint = 0;
  size_t step = 1, first = hint;
  while (first + step < size && below(first + step)) first += step, step *= 2;
  for (size_t last = std::min(first + step, size); first < last;) {
    const size_t middle = first + (last - first) / 2;
    below(middle) ? first = middle + 1 : last = middle;
  }
  return first;
}

}  // namespace kl::trace
