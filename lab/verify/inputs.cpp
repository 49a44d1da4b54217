#include <lab/verify/inputs.hpp>

#include <lab/verify/parallel_rows.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace kl {

namespace {

constexpr int64_t kLeastElements = 1 << 20;  // for a thread of its own
constexpr int kTableBits = 12;
constexpr int kTableSize = 1 << kTableBits;

// Quantiles at bin edges; a draw picks a bin and interpolates inside it: no branches, no libm.
struct QuantileTable {
  std::array<float, kTableSize + 1> edge{};

  template <class Quantile>
  explicit QuantileTable(Quantile quantile) {
    for (int i = 0; i <= kTableSize; ++i) {
      const double p = std::clamp(double(i) / kTableSize, 0.5 / kTableSize, 1 - 0.5 / kTableSize);
      edge[static_cast<size_t>(i)] = static_cast<float>(quantile(p));
    }
  }
  float operator()(uint32_t bits) const {
    const size_t bin = bits >> (32 - kTableBits);
    const float within = static_cast<float>(bits & ((1u << (32 - kTableBits)) - 1)) *
                         (1.0f / static_cast<float>(1u << (32 - kTableBits)));
    return edge[bin] + (edge[bin + 1] - edge[bin]) * within;
  }
};

// Bisection on the normal distribution function: 4097 values, once.
double normal_quantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle * std::sqrt(0.5)) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// Student's t, 2 degrees of freedom: the quantile is in closed form.
double heavy_quantile(double p) { return (2 * p - 1) * std::sqrt(2 / (4 * p * (1 - p))); }

const QuantileTable& normal_table() {
  static const QuantileTable table(normal_quantile);
  return table;
}
const QuantileTable& heavy_table() {
  static const QuantileTable table(heavy_quantile);
  return table;
}

// Two 32-bit draws from one counter.
uint64_t draw(uint64_t seed, uint64_t counter) {
  return mix_seed(seed + counter * 0x9e3779b97f4a7c15ull);
}
float symmetric(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits)) * (1.0f / 2147483648.0f);
}

template <class Value>
void fill_row(float* row, int64_t length, uint64_t seed, Value value) {
  int64_t i = 0;
  for (; i + 1 < length; i += 2) {
    const uint64_t bits = draw(seed, static_cast<uint64_t>(i) / 2);
    row[i] = value(static_cast<uint32_t>(bits));
    row[i + 1] = value(static_cast<uint32_t>(bits >> 32));
  }
  if (i < length) row[i] = value(static_cast<uint32_t>(draw(seed, static_cast<uint64_t>(i) / 2)));
}

void put_non_finite(float* row, int64_t length, int64_t index) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int64_t at = index % length;
  if (index % 4 == 0) row[at] = std::numeric_limits<float>::quiet_NaN();
  if (index % 4 == 1) row[at] = kInfinity;
  if (index % 4 == 2) row[at] = -kInfinity;
}

void fill_real_row(const Recipe& recipe, uint64_t row_seed, int64_t index, float* row) {
  const int64_t length = recipe.row_length;
  const QuantileTable& normal = normal_table();
  switch (recipe.distribution) {
    case Distribution::normal:
    case Distribution::permuted_rows:
    case Distribution::captured:
      return fill_row(row, length, row_seed, [&](uint32_t b) { return normal(b); });
    case Distribution::uniform:
      return fill_row(row, length, row_seed, symmetric);
    case Distribution::heavy_tail:
      return fill_row(row, length, row_seed, [&](uint32_t b) { return heavy_table()(b); });
    case Distribution::large_scale:
      return fill_row(row, length, row_seed, [&](uint32_t b) { return 1024.0f * normal(b); });
    case Distribution::tiny_scale:
      return fill_row(row, length, row_seed, [&](uint32_t b) { return 0x1p-11f * normal(b); });
    case Distribution::constant_rows:
      std::fill_n(row, length, normal(static_cast<uint32_t>(draw(row_seed, 0))));
      return;
    case Distribution::zeros:
      std::fill_n(row, length, 0.0f);
      return;
    case Distribution::signed_zeros:
      return fill_row(row, length, row_seed, [](uint32_t b) { return b >> 31 ? -0.0f : 0.0f; });
    case Distribution::subnormals:
      return fill_row(row, length, row_seed, [](uint32_t b) { return 0x1p-127f * symmetric(b); });
    case Distribution::non_finite:
      fill_row(row, length, row_seed, [&](uint32_t b) { return normal(b); });
      return put_non_finite(row, length, index);
  }
}

float other_kind(const Recipe& recipe, uint32_t bits) {
  switch (recipe.kind) {
    case InputKind::index: {
      if (recipe.ignore && bits % 16 == 0) return static_cast<float>(*recipe.ignore);
      return static_cast<float>((uint64_t{bits} * static_cast<uint64_t>(recipe.index_bound)) >> 32);
    }
    case InputKind::count:
      return static_cast<float>(bits >> 29);
    case InputKind::fraction:
      return 0.4375f + 0.3125f * symmetric(bits);
    default:
      return 1.0f + 0.5f * symmetric(bits);
  }
}

void store_row(DLDataType dtype, const float* row, int64_t length, std::byte* to) {
  if (dtype.code == kDLFloat && dtype.bits == 32) {
    std::memcpy(to, row, static_cast<size_t>(length) * sizeof(float));
    return;
  }
  if (dtype.code == kDLBfloat) {
    for (int64_t i = 0; i < length; ++i) {
      const uint16_t half = bf16_from_float(row[i]);
      std::memcpy(to + 2 * i, &half, 2);
    }
    return;
  }
  std::vector<double> wide(row, row + length);
  from_doubles(dtype, wide, to);
}

std::vector<int64_t> row_order(const Recipe& recipe, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(recipe.rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (recipe.distribution != Distribution::permuted_rows || recipe.kind != InputKind::real)
    return order;
  // The first row stays, so that a kernel which knows a tensor by its first values is misled; all
  // others move, in one cycle (Sattolo's).
  for (size_t i = order.size(); i > 2; --i)
    std::swap(order[i - 1], order[1 + draw(seed ^ 0x5045524dull, i) % (i - 2)]);
  return order;
}

}  // namespace

std::string_view to_string(Distribution distribution) {
  switch (distribution) {
    case Distribution::normal:
      return "normal";
    case Distribution::uniform:
      return "uniform";
    case Distribution::heavy_tail:
      return "heavy-tail";
    case Distribution::permuted_rows:
      return "permuted-rows";
    case Distribution::large_scale:
      return "large-scale";
    case Distribution::tiny_scale:
      return "tiny-scale";
    case Distribution::constant_rows:
      return "constant-rows";
    case Distribution::zeros:
      return "zeros";
    case Distribution::signed_zeros:
      return "signed-zeros";
    case Distribution::subnormals:
      return "subnormals";
    case Distribution::captured:
      return "captured";
    default:
      return "non-finite";
  }
}

bool is_random(Distribution distribution) {
  return distribution < Distribution::constant_rows || distribution == Distribution::non_finite;
}

void fill(DLDataType dtype, const Recipe& recipe, uint64_t seed, std::byte* data) {
  const size_t row_bytes = static_cast<size_t>(recipe.row_length) * element_bytes(dtype);
  const std::vector<int64_t> order = row_order(recipe, seed);
  const auto some_rows = [&](int, int64_t first, int64_t end) {
    std::vector<float> row(static_cast<size_t>(recipe.row_length));
    for (int64_t r = first; r < end; ++r) {
      const uint64_t row_seed =
          mix_seed(seed + static_cast<uint64_t>(order[static_cast<size_t>(r)]));
      if (recipe.kind == InputKind::real)
        fill_real_row(recipe, row_seed, r, row.data());
      else
        fill_row(row.data(), recipe.row_length, row_seed,
                 [&](uint32_t b) { return other_kind(recipe, b); });
      store_row(dtype, row.data(), recipe.row_length, data + static_cast<size_t>(r) * row_bytes);
    }
  };
  parallel_rows(recipe.rows, kLeastElements / std::max<int64_t>(recipe.row_length, 1) + 1,
                some_rows);
}

// The finaliser of splitmix64.
uint64_t mix_seed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

uint64_t derive_seed(uint64_t seed, std::string_view stream) {
  uint64_t state = mix_seed(seed + 0x9e3779b97f4a7c15ull);
  for (const char c : stream) state = mix_seed(state * 31 + static_cast<unsigned char>(c));
  return state;
}

uint64_t seed_from_system() {
  std::random_device device;
  // 53 bits, so that the seed survives any reader of JSON numbers.
  return ((uint64_t{device()} << 32) | device()) >> 11;
}

}  // namespace kl
