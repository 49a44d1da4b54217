#include <lab/bench/seam_case.hpp>

#include <cstring>

namespace kl {
namespace {

bool is_f32(DLDataType type) { return type.code == kDLFloat && type.bits == 32; }

void scale_copy(const float* from, float* to, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

}  // namespace

Result<SeamCase> SeamCase::create(const Target& target, const SeamShape& shape, uint64_t seed) {
  SeamCase made;
  made.shape = shape;
  made.group = {"trainer", shape.axes, shape.dtype, shape.scalars, shape.absent, {}};
  KL_TRY(made.pool, draw_case(target, made.group, Case{}, seed));
  return made;
}

Draw random_draw(const TensorData& tensor, InputKind kind, std::mt19937_64& random) {
  Draw draw;
  if (tensor.size() > 1)
    draw.rotation = std::uniform_int_distribution<int64_t>(0, tensor.size() - 1)(random);
  if (!is_f32(tensor.dtype)) return draw;
  if (kind == InputKind::real) {
    draw.factor = std::uniform_real_distribution<double>(0.5, 2.0)(random);
    if (random() & 1) draw.factor = -draw.factor;
  } else if (kind == InputKind::unit) {
    draw.factor = std::uniform_real_distribution<double>(0.8, 1.25)(random);
  }
  return draw;
}

void write_draw(const TensorData& pool, const Draw& draw, std::byte* to) {
  const int64_t head = pool.size() - draw.rotation;
  const size_t width = element_bytes(pool.dtype);
  const std::byte* from = pool.bytes.data();
  if (draw.factor == 1) {
    const size_t split = static_cast<size_t>(draw.rotation) * width;
    std::memcpy(to, from + split, pool.bytes.size() - split);
    std::memcpy(to + pool.bytes.size() - split, from, split);
    return;
  }
  const auto* values = reinterpret_cast<const float*>(from);
  auto* target = reinterpret_cast<float*>(to);
  const float factor = static_cast<float>(draw.factor);
  scale_copy(values + draw.rotation, target, head, factor);
  scale_copy(values, target + head, draw.rotation, factor);
}

}  // namespace kl
