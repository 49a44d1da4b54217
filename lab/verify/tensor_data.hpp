// Tensors in host memory: element types, exact conversion to double, poison.
#pragma once

#include <lab/core/result.hpp>

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

// "f32", "f64", "bf16", "i32", "i64".
Result<DLDataType> dtype_from_name(std::string_view name);
std::string dtype_name(DLDataType dtype);
size_t element_bytes(DLDataType dtype);
bool is_integer(DLDataType dtype);

// Half the distance from 1 to the next number: 2^-24 for f32. 0 for integers.
double unit_roundoff(DLDataType dtype);
// Smallest positive normal number; 0 for integers.
double smallest_normal(DLDataType dtype);
// Largest finite number.
double largest_finite(DLDataType dtype);
// Distance from |value| to the next larger number of the type; 1 for integers.
double ulp_of(double value, DLDataType dtype);

// Every type converts to double exactly, except i64 beyond 2^53.
void to_doubles(DLDataType dtype, const std::byte* from, std::span<double> to);
// Rounds to nearest, ties to even.
void from_doubles(DLDataType dtype, std::span<const double> from, std::byte* to);

// To nearest, ties to even; NaN stays NaN.
uint16_t bf16_from_float(float value);

// What no kernel computes, in every element. Of floating types pattern 0 is a NaN with a payload,
// which goes through sums and products with zero; fmax and fmin drop it, so that patterns 1 and 2
// are very large values of either sign. Integers are far outside any index.
inline constexpr int kPoisonPatterns = 3;
void poison(DLDataType dtype, std::byte* data, int64_t count, int pattern);
bool is_poison(DLDataType dtype, const std::byte* element, int pattern);
// One element of it, to repeat.
std::vector<std::byte> poison_unit(DLDataType dtype, int pattern);
std::vector<std::byte> untyped_poison_unit(int pattern);
// For buffers without a type (saved, scratch): as f32, with another payload.
void poison_bytes(std::byte* data, size_t bytes, int pattern);

struct TensorData {
  std::string name;
  DLDataType dtype{kDLFloat, 32, 1};
  std::vector<int64_t> shape;  // empty: absent
  std::vector<std::byte> bytes;  // always packed
  std::vector<int64_t> strides = {};  // of the buffer it is given in; empty: packed

  bool present() const { return !shape.empty(); }
  int64_t size() const;
  std::vector<double> values() const;
};

int64_t element_count(std::span<const int64_t> shape);
// Position of a packed element in each axis.
std::vector<int64_t> index_of(int64_t element, std::span<const int64_t> shape);

}  // namespace kl
