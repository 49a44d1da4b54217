#include <lab/verify/strided.hpp>

#include <cstring>

namespace kl {

namespace {

std::vector<int64_t> packed_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t axis = shape.size(); axis-- > 0; step *= shape[axis]) strides[axis] = step;
  return strides;
}

// visit(packed element, offset in the buffer), in packed order.
template <class Visit>
void each_element(const Layout& layout, Visit visit) {
  std::vector<int64_t> index(layout.shape.size());
  const int64_t count = element_count(layout.shape);
  int64_t offset = 0;
  for (int64_t element = 0; element < count; ++element) {
    visit(static_cast<size_t>(element), static_cast<size_t>(offset));
    for (size_t axis = index.size(); axis-- > 0;) {
      offset += layout.strides[axis];
      if (++index[axis] < layout.shape[axis]) break;
      offset -= layout.strides[axis] * layout.shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

bool Layout::packed() const { return strides.empty() || strides == packed_strides(shape); }

int64_t Layout::span() const {
  if (strides.empty() || shape.empty()) return element_count(shape);
  int64_t last = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) last += (shape[axis] - 1) * strides[axis];
  return last + 1;
}

Layout Layout::row() const {
  if (shape.size() == 1) return {dtype, {1}, {}};  // a shape without axes would be an absent tensor
  return {dtype, {shape.begin() + 1, shape.end()}, {strides.empty() ? strides.end() : strides.begin() + 1, strides.end()}};
}

size_t Layout::row_offset(int64_t index) const {
  const int64_t step = strides.empty() ? row().span() : strides.front();
  return static_cast<size_t>(index * step) * element_bytes(dtype);
}

void scatter(const Layout& layout, std::span<const std::byte> packed, int pattern, std::byte* to) {
  if (layout.packed() && !packed.empty()) {
    std::memcpy(to, packed.data(), packed.size());
    return;
  }
  poison(layout.dtype, to, layout.span(), pattern);
  if (packed.empty()) return;
  const size_t width = element_bytes(layout.dtype);
  each_element(layout, [&](size_t element, size_t offset) {
    std::memcpy(to + offset * width, packed.data() + element * width, width);
  });
}

std::vector<std::byte> gather(const Layout& layout, const std::byte* from) {
  const size_t width = element_bytes(layout.dtype);
  const size_t bytes = static_cast<size_t>(element_count(layout.shape)) * width;
  if (layout.packed()) return {from, from + bytes};
  std::vector<std::byte> packed(bytes);
  each_element(layout, [&](size_t element, size_t offset) {
    std::memcpy(packed.data() + element * width, from + offset * width, width);
  });
  return packed;
}

std::optional<int64_t> written_gap(const Layout& layout, const std::byte* data, int pattern) {
  if (layout.packed()) return std::nullopt;
  std::vector<bool> taken(static_cast<size_t>(layout.span()));
  each_element(layout, [&](size_t, size_t offset) { taken[offset] = true; });
  const size_t width = element_bytes(layout.dtype);
  for (size_t i = 0; i < taken.size(); ++i)
    if (!taken[i] && !is_poison(layout.dtype, data + i * width, pattern))
      return static_cast<int64_t>(i);
  return std::nullopt;
}

}  // namespace kl
