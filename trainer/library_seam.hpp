// One seam held by a kernel library: prepared once for each shape, called at every site of the
// step, counted and timed. Errors of a call are kept and asked for once a step, so that the step
// list stays plain.
#pragma once

#include <trainer/arena.hpp>
#include <trainer/prepared_call.hpp>

#include <array>
#include <initializer_list>
#include <optional>
#include <string>

namespace kl::trainer {

struct SeamCounts {
  std::array<int64_t, 2> calls{};  // of each operation of the seam's contract
  int64_t ns = 0;
  int64_t graph_nodes = 0;  // nodes of a device's graph that these calls launched
  SeamCounts operator-(const SeamCounts& o) const {
    return {{calls[0] - o.calls[0], calls[1] - o.calls[1]}, ns - o.ns, graph_nodes - o.graph_nodes};
  }
  SeamCounts& operator+=(const SeamCounts& o) {
    for (size_t operation = 0; operation < calls.size(); ++operation) calls[operation] += o.calls[operation];
    ns += o.ns;
    graph_nodes += o.graph_nodes;
    return *this;
  }
};

// One shape at which a seam is called, and the calls of a pass that have it.
struct SeamForm {
  std::vector<CallForm> operations;
  std::vector<int> sites;
};

class LibrarySeam {
 public:
  // The library must accept every form. Each site has its own `saved`.
  static Result<LibrarySeam> open(const std::filesystem::path& library, const std::string& target,
                                  std::span<const std::string> services,
                                  std::vector<SeamForm> forms, int threads);

  void run(int operation, int site, std::initializer_list<const void*> inputs,
           std::initializer_list<void*> outputs);
  // Moves every element of every output by -1, 0 or +1 unit in the last place after each call.
  void perturb(uint64_t seed) { perturb_ = seed; }

  const SeamCounts& counts() const { return counts_; }
  Outcome fault() const;  // the first error a call returned

 private:
  using Shape = std::vector<PreparedCall>;  // by operation
  explicit LibrarySeam(KernelLibrary library) : library_(std::move(library)) {}
  void move_last_place(const DLTensor& output, uint64_t key) const;

  KernelLibrary library_;
  std::vector<Shape> shapes_;
  std::vector<size_t> of_site_;  // which shape a site has
  std::unique_ptr<Arena> arena_;
  char *saved_ = nullptr, *scratch_ = nullptr;
  size_t saved_stride_ = 0;
  SeamCounts counts_;
  std::optional<uint64_t> perturb_;
  std::optional<std::string> fault_;
};

}  // namespace kl::trainer
