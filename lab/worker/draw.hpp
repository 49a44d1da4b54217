// Contents taken from a private pool: rotated and scaled, the same on the host and on a device.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace kl {

// to[i] = pool[(i + rotation) mod n] * factor for n elements. f32, bf16 and f16 multiply by the
// factor as f32 and round once, to nearest even; f64 by the factor itself. With a factor of 1, and
// for every other type, elements are moved as they are.
void draw_from_pool(DLDataType dtype, std::span<const std::byte> pool, int64_t rotation,
                    double factor, std::byte* to);

}  // namespace kl
