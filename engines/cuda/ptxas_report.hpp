// What ptxas says about each kernel, read from nvcc's output.
#pragma once

#include <string>
#include <vector>

namespace kl::cuda {

struct KernelResources {
  std::string name;  // demangled, without its parameters
  int registers = -1;  // -1: not said
  int stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0;
  int shared_bytes = 0;
};

std::vector<KernelResources> resources_of(const std::string& ptxas_output);
// "add_one<1>: 12 registers, 1024 bytes of shared memory, no spills"
std::string note_of(const KernelResources& kernel);
// The compiler's message without what ptxas says by the way.
std::string without_ptxas_info(const std::string& output);

}  // namespace kl::cuda
