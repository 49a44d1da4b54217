// Deterministic contents of tensors from a seed: used by verify for its cases and by bench to
// rewrite inputs in place between repetitions.
#pragma once

#include <lab/target/target.hpp>
#include <lab/verify/tensor_data.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace kl {

enum class Distribution : uint8_t {
  normal,         // N(0, 1), truncated near 3.7
  uniform,        // [-1, 1)
  heavy_tail,     // Student's t with 2 degrees of freedom, truncated near 64
  permuted_rows,  // the rows of `normal` with the same seed: the first, then the others elsewhere
  large_scale,    // 2^10 × normal
  tiny_scale,     // 2^-11 × normal
  constant_rows,  // one normal value in each row
  zeros,
  signed_zeros,  // +0 and -0
  subnormals,    // up to 2^-127, both signs
  non_finite,    // normal, with NaN, +inf and -inf in some rows
  captured,      // what a trainer passed (captured.hpp); `normal` where a file holds nothing
};
inline constexpr std::array kDistributions = {
    Distribution::normal,        Distribution::uniform,     Distribution::heavy_tail,
    Distribution::permuted_rows, Distribution::large_scale, Distribution::tiny_scale,
    Distribution::constant_rows, Distribution::zeros,       Distribution::signed_zeros,
    Distribution::subnormals,    Distribution::non_finite};

std::string_view to_string(Distribution distribution);
// Random rounding errors (γ = 6√n) or structured ones that may all point the same way (γ = n).
bool is_random(Distribution distribution);

// What one tensor holds. A row is one run along the last axis.
struct Recipe {
  Distribution distribution = Distribution::normal;
  InputKind kind = InputKind::real;
  int64_t rows = 1;
  int64_t row_length = 1;
  int64_t index_bound = 1;        // of an `index` input
  std::optional<int64_t> ignore;  // sometimes drawn by an `index` input
};

// Fills rows × row_length elements. The same recipe and seed give the same bytes anywhere.
void fill(DLDataType dtype, const Recipe& recipe, uint64_t seed, std::byte* data);

// Independent streams from one seed: by tensor name, by case.
uint64_t derive_seed(uint64_t seed, std::string_view stream);
uint64_t mix_seed(uint64_t value);
uint64_t seed_from_system();

}  // namespace kl
