#include <lab/trace/intervals.hpp>

#include <algorithm>
#include <iterator>

namespace kl::trace {

namespace {

bool earlier(const Span& a, const Span& b) { return a.begin < b.begin; }

}  // namespace

Spans union_of(std::vector<Span> any) {
  std::erase_if(any, [](const Span& s) { return s.end <= s.begin; });
  // Traces are mostly written in order.
  if (!std::is_sorted(any.begin(), any.end(), earlier)) std::sort(any.begin(), any.end(), earlier);
  size_t merged = 0;  // in place: a trace's spans are many
  for (const Span s : any) {
    if (merged > 0 && s.begin <= any[merged - 1].end)
      any[merged - 1].end = std::max(any[merged - 1].end, s.end);
    else
      any[merged++] = s;
  }
  any.resize(merged);
  return any;
}

Spans unite(Spans a, Spans b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  std::vector<Span> all;
  all.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all), earlier);
  return union_of(std::move(all));
}

Spans intersect(std::span<const Span> a, std::span<const Span> b) {
  Spans both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Span s{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (s.begin < s.end) both.push_back(s);
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return both;
}

Spans subtract(std::span<const Span> a, std::span<const Span> b) {
  Spans rest;
  rest.reserve(a.size() + b.size());
  size_t j = 0;
  for (Span s : a) {
    while (j < b.size() && b[j].end <= s.begin) ++j;
    for (size_t k = j; k < b.size() && b[k].begin < s.end; ++k) {
      if (s.begin < b[k].begin) rest.push_back({s.begin, b[k].begin});
      s.begin = std::max(s.begin, b[k].end);
    }
    if (s.begin < s.end) rest.push_back(s);
  }
  return rest;
}

int64_t length(std::span<const Span> spans) {
  int64_t sum = 0;
  for (const Span& s : spans) sum += s.length();
  return sum;
}

}  // namespace kl::trace
