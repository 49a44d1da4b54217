// The CUDA toolkit and the tools around it, as found on this machine.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace kl::cuda {

struct Toolkit {
  std::filesystem::path nvcc;
  std::filesystem::path include;  // cuda.h, cuda_runtime.h
  std::string version;            // "13.0.88"
  int major = 0, minor = 0;

  // $CUDACXX, then nvcc on PATH, then /usr/local/cuda/bin, then the toolkit the lab was built with.
  // missing_tool with its remedy otherwise.
  static const Result<Toolkit>& find();
};

// "Cuda compilation tools, release 13.0, V13.0.88" → "13.0.88"; empty when it says nothing like it.
std::string version_of_nvcc(const std::string& said);

// A library by its name: from the toolkit's folders, then as the loader finds it. Null: not there.
void* open_library(const std::string& name);

// A program of the toolkit or on PATH (ncu, nsys, compute-sanitizer); empty when there is none.
std::filesystem::path find_program(const std::string& name);

// What nvcc builds for: $KERNEL_LAB_CUDA_ARCH, else the device's own, else sm_90.
std::string target_architecture();
// "sm_90", "sm_90a", "sm_120f": what nvcc's -arch understands. Accepts "90" and "9.0" too.
Result<std::string> architecture_named(const std::string& text);

}  // namespace kl::cuda
