#include <trainer/library_seam.hpp>

#include <lab/core/clock.hpp>
#include <trainer/random.hpp>

#include <cmath>
#include <limits>

namespace kl::trainer {
namespace {

template <class F>
void move_elements(F* values, int64_t count, uint64_t key) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t draw = mix64(key + static_cast<uint64_t>(i)) % 3;
    const F limit = std::numeric_limits<F>::infinity();
    if (draw != 1) values[i] = std::nextafter(values[i], draw == 0 ? -limit : limit);
  }
}

}  // namespace

Result<LibrarySeam> LibrarySeam::open(const std::filesystem::path& path, const std::string& target,
                                      std::span<const std::string> services,
                                      std::vector<SeamForm> forms, int threads) {
  KL_TRY(KernelLibrary library, KernelLibrary::load(path, target));
  LibrarySeam seam(std::move(library));
  const DLDevice cpu{kDLCPU, 0};
  size_t scratch_bytes = 0;
  for (SeamForm& form : forms) {
    Shape& shape = seam.shapes_.emplace_back();
    for (CallForm& call : form.operations) {
      const auto operation = static_cast<int32_t>(shape.size());
      KL_TRY(PreparedCall prepared, PreparedCall::prepare(seam.library_, target, operation, std::move(call), cpu, threads, services));
      scratch_bytes = std::max(scratch_bytes, prepared.scratch_bytes());
      seam.saved_stride_ = std::max(seam.saved_stride_, (prepared.saved_bytes() + 63) / 64 * 64);
      shape.push_back(std::move(prepared));
    }
    for (const int site : form.sites) {
      seam.of_site_.resize(std::max(seam.of_site_.size(), static_cast<size_t>(site) + 1));
      seam.of_site_[static_cast<size_t>(site)] = seam.shapes_.size() - 1;
    }
  }
  seam.arena_ = std::make_unique<Arena>();
  char *saved = nullptr, *scratch = nullptr;
  seam.arena_->reserve(saved, static_cast<int64_t>(seam.saved_stride_ * seam.of_site_.size()));
  seam.arena_->reserve(scratch, static_cast<int64_t>(scratch_bytes));
  seam.arena_->commit();
  seam.saved_ = saved;
  seam.scratch_ = scratch;
  return seam;
}

void LibrarySeam::run(int operation, int site, std::initializer_list<const void*> inputs,
                      std::initializer_list<void*> outputs) {
  PreparedCall& call = shapes_[of_site_[static_cast<size_t>(site)]][static_cast<size_t>(operation)];
  const int64_t start = monotonic_ns();
  const auto refusal =
      call.run(library_, inputs, outputs, saved_ + static_cast<size_t>(site) * saved_stride_,
               scratch_, nullptr);
  if (refusal && !fault_) fault_ = refusal;
  counts_.ns += monotonic_ns() - start;
  ++counts_.calls[static_cast<size_t>(operation)];
  if (!perturb_) return;
  const auto calls = static_cast<uint64_t>(counts_.calls[0] + counts_.calls[1]) - 1;
  for (size_t k = 0; k < call.outputs().size(); ++k)
    move_last_place(call.outputs()[k], mix64(*perturb_ + mix64(8 * calls + k)));
}

void LibrarySeam::move_last_place(const DLTensor& output, uint64_t key) const {
  if (output.ndim == 0 || output.dtype.code != kDLFloat) return;
  if (output.dtype.bits == 32)
    move_elements(static_cast<float*>(output.data), elements(output), key);
  if (output.dtype.bits == 64)
    move_elements(static_cast<double*>(output.data), elements(output), key);
}

Outcome LibrarySeam::fault() const {
  if (!fault_) return {};
  return make_error(Status::execution_failed, *fault_, "verify the kernel at this shape");
}

}  // namespace kl::trainer
