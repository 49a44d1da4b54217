#include <lab/verify/tensor_data.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kl {

namespace {

constexpr uint32_t kPoison32[kPoisonPatterns] = {0x7fc5a5a5u, 0x7ee3c3c3u, 0xfee3c3c3u};
// Of buffers without a type: another payload, so that a NaN that came through scratch is not taken
// for an output that was never written.
constexpr uint32_t kPoisonUntyped[kPoisonPatterns] = {0x7fcb1b1bu, 0x7eeb4b4bu, 0xfeeb4b4bu};
constexpr uint64_t kPoison64[kPoisonPatterns] = {0x7ffc5a5a5a5a5a5aull, 0x7fde3c3c3c3c3c3cull,
                                                 0xffde3c3c3c3c3c3cull};
constexpr uint16_t kPoison16[kPoisonPatterns] = {0x7fe5u, 0x7ed3u, 0xfed3u};
constexpr int32_t kPoisonI32[kPoisonPatterns] = {-2004318071, -1717986918, 1717986917};
constexpr int64_t kPoisonI64[kPoisonPatterns] = {-8608480567731124087, -7378697629483820646,
                                                 7378697629483820645};

enum class Element { f32, f64, bf16, i32, i64 };

Element element_of(DLDataType dtype) {
  if (dtype.code == kDLFloat) return dtype.bits == 64 ? Element::f64 : Element::f32;
  if (dtype.code == kDLBfloat) return Element::bf16;
  return dtype.bits == 64 ? Element::i64 : Element::i32;
}

template <class T>
void store_all(std::byte* data, int64_t count, T value) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(data + i * int64_t{sizeof(T)}, &value, sizeof(T));
}

template <class T>
bool holds(const std::byte* element, T value) {
  return std::memcmp(element, &value, sizeof(T)) == 0;
}

template <class T>
void widen(const std::byte* from, std::span<double> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<double>(value);
  }
}

template <class T>
void narrow(std::span<const double> from, std::byte* to) {
  for (size_t i = 0; i < from.size(); ++i) {
    const T value = static_cast<T>(from[i]);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

// Through f32 first: double rounding is harmless here, inputs have few significant bits to lose.
uint16_t to_bf16(double value) { return bf16_from_float(static_cast<float>(value)); }

int significand_bits(DLDataType dtype) {
  switch (element_of(dtype)) {
    case Element::f32:
      return 24;
    case Element::f64:
      return 53;
    case Element::bf16:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

Result<DLDataType> dtype_from_name(std::string_view name) {
  if (name == "f32") return DLDataType{kDLFloat, 32, 1};
  if (name == "f64") return DLDataType{kDLFloat, 64, 1};
  if (name == "bf16") return DLDataType{kDLBfloat, 16, 1};
  if (name == "i32") return DLDataType{kDLInt, 32, 1};
  if (name == "i64") return DLDataType{kDLInt, 64, 1};
  return make_error(Status::unsupported_target,
                    "element type \"" + std::string(name) + "\" is not known",
                    "use one of f32, f64, bf16, i32, i64 in spec.toml");
}

std::string dtype_name(DLDataType dtype) {
  switch (element_of(dtype)) {
    case Element::f32:
      return "f32";
    case Element::f64:
      return "f64";
    case Element::bf16:
      return "bf16";
    case Element::i32:
      return "i32";
    default:
      return "i64";
  }
}

uint16_t bf16_from_float(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

size_t element_bytes(DLDataType dtype) { return dtype.bits / 8u; }
bool is_integer(DLDataType dtype) { return dtype.code == kDLInt; }

double unit_roundoff(DLDataType dtype) {
  const int bits = significand_bits(dtype);
  return bits == 0 ? 0 : std::ldexp(1.0, -bits);
}

double smallest_normal(DLDataType dtype) {
  if (is_integer(dtype)) return 0;
  return element_of(dtype) == Element::f64 ? std::numeric_limits<double>::min()
                                           : double{std::numeric_limits<float>::min()};
}

double largest_finite(DLDataType dtype) {
  switch (element_of(dtype)) {
    case Element::f32:
      return double{std::numeric_limits<float>::max()};
    case Element::bf16:
      return double{std::bit_cast<float>(0x7f7f0000u)};
    case Element::f64:
      return std::numeric_limits<double>::max();
    case Element::i32:
      return double{std::numeric_limits<int32_t>::max()};
    default:
      return static_cast<double>(std::numeric_limits<int64_t>::max());
  }
}

double ulp_of(double value, DLDataType dtype) {
  const int bits = significand_bits(dtype);
  if (bits == 0) return 1;
  const double magnitude = std::max(std::fabs(value), smallest_normal(dtype));
  return std::ldexp(1.0, std::ilogb(magnitude) - (bits - 1));
}

void to_doubles(DLDataType dtype, const std::byte* from, std::span<double> to) {
  switch (element_of(dtype)) {
    case Element::f32:
      return widen<float>(from, to);
    case Element::f64:
      return widen<double>(from, to);
    case Element::i32:
      return widen<int32_t>(from, to);
    case Element::i64:
      return widen<int64_t>(from, to);
    case Element::bf16:
      for (size_t i = 0; i < to.size(); ++i) {
        uint16_t half;
        std::memcpy(&half, from + 2 * i, 2);
        to[i] = double{std::bit_cast<float>(uint32_t{half} << 16)};
      }
  }
}

void from_doubles(DLDataType dtype, std::span<const double> from, std::byte* to) {
  switch (element_of(dtype)) {
    case Element::f32:
      return narrow<float>(from, to);
    case Element::f64:
      return narrow<double>(from, to);
    case Element::i32:
      return narrow<int32_t>(from, to);
    case Element::i64:
      return narrow<int64_t>(from, to);
    case Element::bf16:
      for (size_t i = 0; i < from.size(); ++i) {
        const uint16_t half = to_bf16(from[i]);
        std::memcpy(to + 2 * i, &half, 2);
      }
  }
}

void poison(DLDataType dtype, std::byte* data, int64_t count, int pattern) {
  switch (element_of(dtype)) {
    case Element::f32:
      return store_all(data, count, kPoison32[pattern]);
    case Element::f64:
      return store_all(data, count, kPoison64[pattern]);
    case Element::bf16:
      return store_all(data, count, kPoison16[pattern]);
    case Element::i32:
      return store_all(data, count, kPoisonI32[pattern]);
    case Element::i64:
      return store_all(data, count, kPoisonI64[pattern]);
  }
}

bool is_poison(DLDataType dtype, const std::byte* element, int pattern) {
  switch (element_of(dtype)) {
    case Element::f32:
      return holds(element, kPoison32[pattern]);
    case Element::f64:
      return holds(element, kPoison64[pattern]);
    case Element::bf16:
      return holds(element, kPoison16[pattern]);
    case Element::i32:
      return holds(element, kPoisonI32[pattern]);
    default:
      return holds(element, kPoisonI64[pattern]);
  }
}

std::vector<std::byte> poison_unit(DLDataType dtype, int pattern) {
  std::vector<std::byte> unit(element_bytes(dtype));
  poison(dtype, unit.data(), 1, pattern);
  return unit;
}

std::vector<std::byte> untyped_poison_unit(int pattern) {
  std::vector<std::byte> unit(sizeof(uint32_t));
  poison_bytes(unit.data(), unit.size(), pattern);
  return unit;
}

void poison_bytes(std::byte* data, size_t bytes, int pattern) {
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(kPoisonUntyped[pattern] >> (8 * (i % 4)));
}

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = shape.empty() ? 0 : 1;
  for (const int64_t length : shape) count *= length;
  return count;
}

std::vector<int64_t> index_of(int64_t element, std::span<const int64_t> shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

int64_t TensorData::size() const { return element_count(shape); }

std::vector<double> TensorData::values() const {
  std::vector<double> result(static_cast<size_t>(size()));
  to_doubles(dtype, bytes.data(), result);
  return result;
}

}  // namespace kl
