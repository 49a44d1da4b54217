#include "cupti_durations.hpp"

#include <engines/cuda/toolkit.hpp>

#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>

namespace kl::testing {
namespace {

constexpr size_t kBufferBytes = 8 << 20;

std::vector<int64_t>* collected = nullptr;
std::string wanted;
decltype(&::cuptiActivityGetNextRecord) next_record = nullptr;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *most = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  CUpti_Activity* record = nullptr;
  while (next_record(buffer, used, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<CUpti_ActivityKernel10*>(record);
    if (collected != nullptr && kernel->name != nullptr && wanted == kernel->name)
      collected->push_back(static_cast<int64_t>(kernel->end - kernel->start));
  }
  std::free(buffer);
}

}  // namespace

std::vector<int64_t> cupti_durations(const std::string& kernel, const std::function<void()>& work,
                                     std::string& why_not) {
  void* library = cuda::open_library("libcupti.so." + std::to_string(CUDA_VERSION / 1000));
  if (library == nullptr) library = cuda::open_library("libcupti.so");
  if (library == nullptr) {
    why_not = "libcupti does not load";
    return {};
  }
#define KL_CUPTI(name) const auto name = reinterpret_cast<decltype(&::name)>(::dlsym(library, #name))
  KL_CUPTI(cuptiActivityRegisterCallbacks);
  KL_CUPTI(cuptiActivityEnable);
  KL_CUPTI(cuptiActivityDisable);
  KL_CUPTI(cuptiActivityFlushAll);
  next_record = reinterpret_cast<decltype(next_record)>(::dlsym(library, "cuptiActivityGetNextRecord"));
  std::vector<int64_t> durations;
  collected = &durations;
  wanted = kernel;
  CUptiResult result = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (result != CUPTI_SUCCESS) {
    why_not = "CUPTI refuses: error " + std::to_string(result);
    return {};
  }
  work();
  cuptiActivityFlushAll(1);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  collected = nullptr;
  if (durations.empty()) why_not = "CUPTI saw no kernel named " + kernel;
  return durations;
}

}  // namespace kl::testing
