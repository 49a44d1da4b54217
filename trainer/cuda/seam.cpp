#include <trainer/cuda/seam.hpp>

#include <lab/core/near.hpp>

#include <algorithm>

namespace kl::trainer::cuda {
namespace {

constexpr DLDataType kBf16{kDLBfloat, 16, 1}, kFloat32{kDLFloat, 32, 1}, kFloat64{kDLFloat, 64, 1},
    kInt32{kDLInt, 32, 1};
const TensorForm kAbsent{{}, kBf16};
constexpr DLDevice kDevice{kDLCUDA, 0};

}  // namespace

Result<std::unique_ptr<Seams>> Seams::open(const Config& c, const SeamFiles& wanted, DeviceArena& arena) {
  auto seams = std::make_unique<Seams>();
  KL_TRY(seams->files_, checked_files(c, wanted));
  const int64_t rows = c.loss_chunk(), V = c.vocab;
  const TensorForm x{{c.tokens(), c.width}, kBf16}, logits{{rows, V}, kBf16}, nll{{rows}, kFloat32};
  const TensorForm targets{{rows}, kInt32}, bytes{{V}, kInt32}, scale{{1}, kFloat32}, sum{{1}, kFloat64};
  KL_CHECK(seams->open_seam(seams->rmsnorm_, "rmsnorm", {{x, kAbsent}, {x}, {c.eps}},
                            {{x, x, kAbsent}, {x, kAbsent}, {c.eps}}, static_cast<int>(2 * c.layers + 2), arena));
  KL_CHECK(seams->open_seam(seams->loss_, "loss_prelude", {{logits, targets, bytes}, {nll, sum, sum}, {c.softcap}},
                            {{scale, logits, targets}, {logits}, {c.softcap}}, 1, arena));
  arena.reserve(seams->token_bytes_, V);
  arena.reserve(seams->gradient_scale_, 1);
  arena.reserve(seams->nll_sum_, 1);
  arena.reserve(seams->byte_sum_, 1);
  return seams;
}

Outcome Seams::open_seam(Seam& seam, const std::string& name, CallForm forward, CallForm backward, int sites,
                         DeviceArena& arena) {
  seam.name = name;
  KL_TRY(seam.library, KernelLibrary::load(files_.at(name).path, name));
  KL_TRY(seam.forward, PreparedCall::prepare(*seam.library, name, KL_FORWARD, std::move(forward), kDevice, 0));
  KL_TRY(seam.backward, PreparedCall::prepare(*seam.library, name, KL_BACKWARD, std::move(backward), kDevice, 0));
  seam.saved_stride = (static_cast<int64_t>(seam.forward.saved_bytes()) + 255) / 256 * 256;
  arena.reserve(seam.saved, seam.saved_stride * sites);
  arena.reserve(seam.scratch, static_cast<int64_t>(std::max(seam.forward.scratch_bytes(), seam.backward.scratch_bytes())));
  calls_[name] = {};
  return {};
}

Outcome Seams::start(std::span<const int32_t> token_bytes, double gradient_scale, const uint64_t* step) {
  step_ = step;
  const auto scale = static_cast<float>(gradient_scale);
  KL_CHECK(check(cudaMemcpy(token_bytes_, token_bytes.data(), token_bytes.size_bytes(), cudaMemcpyHostToDevice),
                 "bytes of the tokens"));
  return check(cudaMemcpy(gradient_scale_, &scale, sizeof(scale), cudaMemcpyHostToDevice), "scale of the gradient");
}

void Seams::rmsnorm_forward(int site, const bf16* x, bf16* y) {
  call(rmsnorm_, true, site, {x, nullptr}, {y});
}
void Seams::rmsnorm_backward(int site, const bf16* dy, const bf16* x, bf16* dx) {
  call(rmsnorm_, false, site, {dy, x, nullptr}, {dx, nullptr});
}
void Seams::loss_forward(const bf16* logits, const int32_t* targets, float* nll) {
  call(loss_, true, 0, {logits, targets, token_bytes_}, {nll, nll_sum_, byte_sum_});
}
void Seams::loss_backward(const bf16* logits, const int32_t* targets, bf16* dlogits) {
  call(loss_, false, 0, {gradient_scale_, logits, targets}, {dlogits});
}

void Seams::call(Seam& seam, bool forward, int site, std::initializer_list<const void*> inputs,
                 std::initializer_list<void*> outputs) {
  PreparedCall& prepared = forward ? seam.forward : seam.backward;
  if (watch_ != nullptr) watch_->before_call(seam.name, forward);
  const auto refusal = prepared.run(*seam.library, inputs, outputs, seam.saved + site * seam.saved_stride,
                                    seam.scratch, stream_);
  if (watch_ != nullptr) watch_->after_call(seam.name, forward);
  if (refusal && !fault_) fault_ = refusal;
  ++calls_[seam.name].calls[forward ? KL_FORWARD : KL_BACKWARD];
  if (seam.perturb) move_outputs(seam, prepared);
}

void Seams::move_outputs(const Seam& seam, const PreparedCall& call) const {
  const SeamCounts& calls = calls_.at(seam.name);
  for (size_t k = 0; k < call.outputs().size(); ++k) {
    const DLTensor& output = call.outputs()[k];
    const Move move{*seam.perturb, 8 * static_cast<uint64_t>(calls.calls[KL_FORWARD] + calls.calls[KL_BACKWARD]) + k, step_};
    if (output.ndim == 0) continue;
    if (output.dtype.code == kDLBfloat)
      move_last_place(static_cast<bf16*>(output.data), elements(output), move, stream_);
    else if (output.dtype.bits == 32)
      move_last_place(static_cast<float*>(output.data), elements(output), move, stream_);
    else
      move_last_place(static_cast<double*>(output.data), elements(output), move, stream_);
  }
}

Outcome Seams::perturb(const std::string& name, uint64_t seed) {
  for (Seam* seam : {&rmsnorm_, &loss_})
    if (seam->name == name) {
      seam->perturb = seed;
      return {};
    }
  const std::vector<std::string> names{rmsnorm_.name, loss_.name};
  return make_error(Status::usage, "no seam named '" + name + "'", suggestion(name, names));
}

Outcome Seams::fault() const {
  if (!fault_) return {};
  return make_error(Status::execution_failed, *fault_, "verify the kernel at this shape");
}

}  // namespace kl::trainer::cuda
