// A kernel library's forward or backward made ready for one shape: accepted, prepared, and called
// with nothing but pointers.
#pragma once

#include <lab/build/loader.hpp>

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kl::trainer {

struct TensorForm {
  std::vector<int64_t> shape;  // empty: an optional tensor that is not passed
  DLDataType type{kDLFloat, 32, 1};
  std::vector<int64_t> strides = {};  // elements; empty: packed
};
struct CallForm {
  std::vector<TensorForm> inputs, outputs;
  std::vector<double> scalars;
};

class PreparedCall {
 public:
  PreparedCall() = default;
  // load_failed when the library does not accept the form or cannot prepare it, with its reason.
  static Result<PreparedCall> prepare(const KernelLibrary& library, const std::string& target, int32_t operation,
                                      CallForm form, DLDevice device, int threads,
                                      std::span<const std::string> listed_services = {});
  size_t scratch_bytes() const { return scratch_bytes_; }
  size_t saved_bytes() const { return saved_bytes_; }  // of the forward call

  // The reason, if the library refuses.
  std::optional<std::string> run(const KernelLibrary& library, std::initializer_list<const void*> inputs,
                                 std::initializer_list<void*> outputs, void* saved, void* scratch,
                                 kl_stream stream);
  const std::vector<DLTensor>& outputs() const { return outputs_; }  // as last called

 private:
  std::string name_;  // "rmsnorm forward"
  CallForm form_;
  std::vector<DLTensor> inputs_, outputs_;
  kl_plan plan_{};
  size_t scratch_bytes_ = 0, saved_bytes_ = 0;
};

int64_t elements(const DLTensor& tensor);  // 0 when it is not passed

}  // namespace kl::trainer
