// A call as the kernel ABI wants it, with the storage behind its pointers.
#pragma once

#include <kernel_lab/kernel.h>
#include <lab/worker/call_wire.hpp>

#include <memory>
#include <vector>

namespace kl {

class PreparedCall {
 public:
  // `buffers`: those the call is bound to, where tensors are on a device.
  PreparedCall(protocol::WireCall call, int threads, DLDevice device = {kDLCPU, 0}, std::vector<int> buffers = {});

  // What `prepare` and the domain see: no data.
  kl_problem problem() const;
  kl_call arguments() {
    return {inputs_.data(), outputs_.data(), call_->scalars.data(), at(call_->saved), at(call_->scratch)};
  }
  kl_plan* plan() { return plan_.get(); }
  const std::vector<protocol::Range>& writable() const { return call_->writable; }
  const std::vector<int>& buffers() const { return buffers_; }

  const kl_kernel_table* table = nullptr;

 private:
  static void* at(uint64_t address) { return reinterpret_cast<void*>(address); }

  std::unique_ptr<protocol::WireCall> call_;  // owns shapes and strides
  std::vector<DLTensor> inputs_, outputs_, blank_inputs_, blank_outputs_;
  std::unique_ptr<kl_plan> plan_ = std::make_unique<kl_plan>();
  int threads_;
  std::vector<int> buffers_;
};

}  // namespace kl
