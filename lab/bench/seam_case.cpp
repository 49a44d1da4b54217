#include <lab/bench/seam_case.hpp>

namespace kl {
namespace {

bool has_scale(DLDataType type) { return type.code == kDLFloat || type.code == kDLBfloat; }

}  // namespace

Result<SeamCase> SeamCase::create(const Target& target, const SeamShape& shape, uint64_t seed) {
  if (!shape.strides.empty())
    return make_error(Status::unsupported_target,
                      "the preset gives " + target.key + " strided tensors; bench times packed ones",
                      "measure it with a program in benchmarks/");
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
  if (!has_scale(tensor.dtype)) return draw;
  if (kind == InputKind::real) {
    draw.factor = std::uniform_real_distribution<double>(0.5, 2.0)(random);
    if (random() & 1) draw.factor = -draw.factor;
  } else if (kind == InputKind::unit || kind == InputKind::fraction) {
    draw.factor = std::uniform_real_distribution<double>(0.8, 1.25)(random);
  }
  return draw;
}

}  // namespace kl
