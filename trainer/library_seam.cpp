#include <trainer/library_seam.hpp>

#include <lab/core/clock.hpp>
#include <trainer/random.hpp>

#include <cmath>
#include <limits>

namespace kl::trainer {
namespace {

// None of today's seams lists a service, so none is lent.
kl_result no_sgemm(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,
                   int64_t, float, float*, int64_t) {
  return {KL_UNSUPPORTED, "the target's spec permits no matrix product"};
}
constexpr kl_services kNoServices = {sizeof(kl_services), 0, no_sgemm};

std::vector<DLTensor> views(std::vector<TensorForm>& forms) {
  std::vector<DLTensor> tensors;
  for (TensorForm& form : forms) {
    DLTensor tensor{};
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(form.shape.size());
    tensor.dtype = form.type;
    tensor.shape = form.shape.empty() ? nullptr : form.shape.data();
    tensors.push_back(tensor);
  }
  return tensors;
}

int64_t elements(const DLTensor& tensor) {
  int64_t count = tensor.ndim == 0 ? 0 : 1;
  for (int i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}

template <class F>
void move_elements(F* values, int64_t count, uint64_t key) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t draw = mix64(key + static_cast<uint64_t>(i)) % 3;
    const F limit = std::numeric_limits<F>::infinity();
    if (draw != 1) values[i] = std::nextafter(values[i], draw == 0 ? -limit : limit);
  }
}

std::string text_of(const kl_result& result) {
  return (result.text == nullptr ? std::string("no reason given") : std::string(result.text)) +
         " (code " + std::to_string(result.code) + ")";
}

}  // namespace

Result<LibrarySeam> LibrarySeam::open(const std::filesystem::path& path, const std::string& target,
                                      CallForm forward, CallForm backward, int sites, int threads) {
  KL_TRY(KernelLibrary library, KernelLibrary::load(path, target));
  LibrarySeam seam(std::move(library));
  seam.target_ = target;
  KL_TRY(const size_t forward_scratch,
         seam.prepare(seam.forward_, KL_FORWARD, std::move(forward), threads));
  KL_TRY(const size_t backward_scratch,
         seam.prepare(seam.backward_, KL_BACKWARD, std::move(backward), threads));
  Call& call = seam.forward_;
  const kl_problem problem{KL_FORWARD,
                           static_cast<int32_t>(call.inputs.size()),
                           static_cast<int32_t>(call.outputs.size()),
                           static_cast<int32_t>(call.form.scalars.size()),
                           call.inputs.data(),
                           call.outputs.data(),
                           call.form.scalars.data(),
                           threads,
                           0};
  const size_t saved = seam.library_.table().saved_bytes(&problem);
  seam.saved_stride_ = (saved + 63) / 64 * 64;
  seam.arena_ = std::make_unique<Arena>();
  char *saved_memory = nullptr, *scratch = nullptr;
  seam.arena_->reserve(saved_memory, static_cast<int64_t>(seam.saved_stride_) * sites);
  seam.arena_->reserve(scratch, static_cast<int64_t>(std::max(forward_scratch, backward_scratch)));
  seam.arena_->commit();
  seam.saved_ = saved_memory;
  seam.forward_.scratch = scratch;
  seam.backward_.scratch = scratch;
  return seam;
}

Result<size_t> LibrarySeam::prepare(Call& call, int32_t operation, CallForm form, int threads) {
  call.operation = operation;
  call.form = std::move(form);
  call.inputs = views(call.form.inputs);
  call.outputs = views(call.form.outputs);
  const kl_problem problem{operation,
                           static_cast<int32_t>(call.inputs.size()),
                           static_cast<int32_t>(call.outputs.size()),
                           static_cast<int32_t>(call.form.scalars.size()),
                           call.inputs.data(),
                           call.outputs.data(),
                           call.form.scalars.data(),
                           threads,
                           0};
  const std::string name = target_ + (operation == KL_FORWARD ? " forward" : " backward");
  const kl_kernel_table& table = library_.table();
  if (const kl_result verdict = table.accepts(&problem); verdict.code != KL_OK)
    return make_error(Status::load_failed,
                      "the library does not accept the trainer's shape of " + name + ": " + text_of(verdict),
                      "widen the kernel's domain, or run the champion there");
  if (const kl_result verdict = table.prepare(&problem, &kNoServices, &call.plan); verdict.code != KL_OK)
    return make_error(Status::load_failed, "prepare of " + name + " failed: " + text_of(verdict),
                      "verify the kernel first");
  return table.scratch_bytes(&problem);
}

void LibrarySeam::run(Call& call, int site, std::initializer_list<const void*> inputs,
                      std::initializer_list<void*> outputs) {
  const int64_t start = monotonic_ns();
  size_t i = 0;
  for (const void* pointer : inputs) call.inputs[i++].data = const_cast<void*>(pointer);
  i = 0;
  for (void* pointer : outputs) call.outputs[i++].data = pointer;
  const kl_call arguments{call.inputs.data(), call.outputs.data(), call.form.scalars.data(),
                          saved_ + static_cast<size_t>(site) * saved_stride_, call.scratch};
  const kl_result result = library_.table().run(&call.plan, &arguments, nullptr);
  if (result.code != KL_OK && !fault_)
    fault_ = target_ + (call.operation == KL_FORWARD ? " forward" : " backward") +
             " failed: " + text_of(result);
  counts_.ns += monotonic_ns() - start;
  if (!perturb_) return;
  const auto calls = static_cast<uint64_t>(counts_.forward + counts_.backward);
  for (size_t k = 0; k < call.outputs.size(); ++k)
    move_last_place(call.outputs[k], mix64(*perturb_ + mix64(8 * calls + k)));
}

void LibrarySeam::move_last_place(const DLTensor& output, uint64_t key) const {
  if (output.ndim == 0 || output.dtype.code != kDLFloat) return;
  if (output.dtype.bits == 32) move_elements(static_cast<float*>(output.data), elements(output), key);
  if (output.dtype.bits == 64) move_elements(static_cast<double*>(output.data), elements(output), key);
}

Outcome LibrarySeam::fault() const {
  if (!fault_) return {};
  return make_error(Status::execution_failed, *fault_, "verify the kernel at this shape");
}

}  // namespace kl::trainer
