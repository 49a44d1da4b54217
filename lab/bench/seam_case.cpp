#include <lab/bench/seam_case.hpp>

#include <lab/verify/strided.hpp>

namespace kl {
namespace {

bool has_scale(DLDataType type) { return type.code == kDLFloat || type.code == kDLBfloat; }

// A strided tensor's pool is the buffer itself, gaps too: there lies what the trainer's rows hold
// beside those the kernel is given.
void fill_gaps(TensorData& tensor) {
  const Layout layout = Layout::of(tensor);
  if (layout.packed() || tensor.bytes.empty()) return;
  const size_t given = tensor.bytes.size();
  tensor.bytes.resize(layout.bytes());
  for (size_t i = given; i < tensor.bytes.size(); ++i) tensor.bytes[i] = tensor.bytes[i - given];
}

}  // namespace

Result<SeamCase> SeamCase::create(const Target& target, const SeamShape& shape, uint64_t seed) {
  SeamCase made;
  made.shape = shape;
  made.group = {"trainer", shape.axes, shape.dtype, shape.scalars, shape.absent, {}, shape.strides};
  KL_TRY(made.pool, draw_case(target, made.group, Case{}, seed));
  for (OperationData& operation : made.pool.operations) {
    for (TensorData& tensor : operation.inputs) fill_gaps(tensor);
    for (TensorData& tensor : operation.outputs) fill_gaps(tensor);
  }
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
