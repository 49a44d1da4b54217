// One seam held by a kernel library: prepared once, called at every site of the step, counted and
// timed. Errors of a call are kept and asked for once a step, so that the step list stays plain.
#pragma once

#include <lab/build/loader.hpp>
#include <trainer/arena.hpp>

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace kl::trainer {

struct TensorForm {
  std::vector<int64_t> shape;  // empty: an optional tensor that is not passed
  DLDataType type{kDLFloat, 32, 1};
};
struct CallForm {
  std::vector<TensorForm> inputs, outputs;
  std::vector<double> scalars;
};

struct SeamCounts {
  int64_t forward = 0;
  int64_t backward = 0;
  int64_t ns = 0;
  SeamCounts operator-(const SeamCounts& o) const {
    return {forward - o.forward, backward - o.backward, ns - o.ns};
  }
};

class LibrarySeam {
 public:
  // The library must accept both calls. `sites`: calls of one forward pass, each with its own saved.
  static Result<LibrarySeam> open(const std::filesystem::path& library, const std::string& target,
                                  CallForm forward, CallForm backward, int sites, int threads);

  void forward(int site, std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs) {
    run(forward_, site, inputs, outputs);
    ++counts_.forward;
  }
  void backward(int site, std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs) {
    run(backward_, site, inputs, outputs);
    ++counts_.backward;
  }
  // Moves every element of every output by -1, 0 or +1 unit in the last place after each call.
  void perturb(uint64_t seed) { perturb_ = seed; }

  const SeamCounts& counts() const { return counts_; }
  const std::string& target() const { return target_; }
  Outcome fault() const;  // the first error a call returned

 private:
  struct Call {
    int32_t operation = 0;
    CallForm form;
    std::vector<DLTensor> inputs, outputs;
    kl_plan plan{};
    void* scratch = nullptr;
  };
  explicit LibrarySeam(KernelLibrary library) : library_(std::move(library)) {}
  Result<size_t> prepare(Call& call, int32_t operation, CallForm form, int threads);
  void run(Call& call, int site, std::initializer_list<const void*> inputs,
           std::initializer_list<void*> outputs);
  void move_last_place(const DLTensor& output, uint64_t key) const;

  KernelLibrary library_;
  std::string target_;
  Call forward_, backward_;
  std::unique_ptr<Arena> arena_;
  char* saved_ = nullptr;
  size_t saved_stride_ = 0;
  SeamCounts counts_;
  std::optional<uint64_t> perturb_;
  std::optional<std::string> fault_;
};

}  // namespace kl::trainer
