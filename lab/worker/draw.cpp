#include <lab/worker/draw.hpp>

#include <bit>
#include <cstring>

namespace kl {
namespace {

uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float value_of_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void scale(DLDataType dtype, const std::byte* from, std::byte* to, int64_t count, double factor) {
  const auto narrow = static_cast<float>(factor);
  const auto each = [&]<class T>(T, auto&& product) {
    const auto* a = reinterpret_cast<const T*>(from);
    auto* b = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < count; ++i) b[i] = product(a[i]);
  };
  if (dtype.code == kDLBfloat)
    return each(uint16_t{}, [&](uint16_t v) { return bf16_of(value_of_bf16(v) * narrow); });
  if (dtype.bits == 64) return each(double{}, [&](double v) { return v * factor; });
#if defined(__FLT16_MANT_DIG__)
  if (dtype.bits == 16)
    return each(_Float16{}, [&](_Float16 v) {
      return static_cast<_Float16>(static_cast<float>(v) * narrow);
    });
#endif
  return each(float{}, [&](float v) { return v * narrow; });
}

}  // namespace

void draw_from_pool(DLDataType dtype, std::span<const std::byte> pool, int64_t rotation,
                    double factor, std::byte* to) {
  const size_t width = dtype.bits * dtype.lanes / 8u;
  const size_t split = static_cast<size_t>(rotation) * width;
  const size_t head = pool.size() - split;
  const bool scalable = dtype.code == kDLFloat || dtype.code == kDLBfloat;
  if (factor == 1 || !scalable) {
    std::memcpy(to, pool.data() + split, head);
    std::memcpy(to + head, pool.data(), split);
    return;
  }
  scale(dtype, pool.data() + split, to, static_cast<int64_t>(head / width), factor);
  scale(dtype, pool.data(), to + head, rotation, factor);
}

}  // namespace kl
