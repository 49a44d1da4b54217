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
  // What `run` is lent to read is from now on as it is: the plan, and what describes the tensors.
  void keep();
  bool is_as_kept() const;
  const std::vector<protocol::Range>& writable() const { return call_->writable; }
  const std::vector<int>& buffers() const { return buffers_; }

  const kl_kernel_table* table = nullptr;

 private:
  std::vector<DLTensor> described() const;  // every view the kernel has seen
  std::vector<int64_t> lengths() const;     // shapes and strides behind them
  static void* at(uint64_t address) { return reinterpret_cast<void*>(address); }

  std::unique_ptr<protocol::WireCall> call_;  // owns shapes and strides
  std::vector<DLTensor> inputs_, outputs_, blank_inputs_, blank_outputs_;
  std::unique_ptr<kl_plan> plan_ = std::make_unique<kl_plan>();
  struct Kept {
    kl_plan plan;
    std::vector<DLTensor> views;
    std::vector<int64_t> lengths;
    std::vector<double> scalars;
  };
  std::unique_ptr<Kept> kept_;
  int threads_;
  std::vector<int> buffers_;
};

}  // namespace kl
