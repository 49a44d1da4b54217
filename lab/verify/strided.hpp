// Tensors with gaps between their rows: a case's contents stay packed, only a call's buffers are
// strided. Gaps are poisoned: reading one must not matter, writing one is a finding.
#pragma once

#include <lab/verify/tensor_data.hpp>

#include <optional>

namespace kl {

// How the elements of a shape lie in a buffer. Empty strides: packed, row-major.
struct Layout {
  DLDataType dtype{kDLFloat, 32, 1};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements

  static Layout of(const TensorData& tensor) {
    return {tensor.dtype, tensor.shape, tensor.strides};
  }
  bool packed() const;
  int64_t span() const;  // elements from the first to the last, gaps included
  size_t bytes() const { return static_cast<size_t>(span()) * element_bytes(dtype); }
  Layout row() const;                      // of one index of the first axis
  size_t row_offset(int64_t index) const;  // bytes
};

// Poison everywhere, then `packed` in its places; empty `packed`: poison alone.
void scatter(const Layout& layout, std::span<const std::byte> packed, int pattern, std::byte* to);
std::vector<std::byte> gather(const Layout& layout, const std::byte* from);
// Element offset of a gap that no longer holds the poison.
std::optional<int64_t> written_gap(const Layout& layout, const std::byte* data, int pattern);

}  // namespace kl
