// A worker with one of the test kernels, bound to one input and one output of 1000 floats.
#pragma once

#include <kernel_lab/kernel.h>
#include <lab/worker/worker.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace kl::testing {

inline constexpr int64_t kCount = 1000;

inline TensorBinding floats(BufferId buffer, int64_t count = kCount) {
  return {buffer, {kDLFloat, 32, 1}, {count}, {}, 0};
}

inline std::string describe(const Fault& fault) {
  return std::string(to_string(fault.status)) + " (" + fault.rule + "): " + fault.proof;
}

template <class T>
T value_of(OrFault<T> result) {
  if (const auto* fault = std::get_if<Fault>(&result)) {
    ADD_FAILURE() << describe(*fault);
    if constexpr (std::is_default_constructible_v<T>) return T{};
  }
  return std::get<0>(std::move(result));
}

struct HostedKernel {
  std::unique_ptr<Worker> worker;
  BufferId x = -1, y = -1;
  CallId call = -1;

  float* input() const { return reinterpret_cast<float*>(worker->data(x)); }
  float* output() const { return reinterpret_cast<float*>(worker->data(y)); }
};

inline std::string library(std::string_view name) {
  return std::string(KL_TEST_KERNELS) + "/" + std::string(name) + ".so";
}

// The first fault on the way to a prepared call, or the call.
inline OrFault<HostedKernel> host(const std::string& path, std::vector<double> scalars = {},
                                  WorkerLimits limits = {}) {
  auto started = Worker::start(limits);
  if (auto* fault = std::get_if<Fault>(&started)) return *fault;
  HostedKernel k;
  k.worker = std::get<0>(std::move(started));
  auto arm = k.worker->load(path, "add_one");
  if (auto* fault = std::get_if<Fault>(&arm)) return *fault;
  k.x = value_of(k.worker->add_buffer(BufferRole::input, kCount * sizeof(float)));
  k.y = value_of(k.worker->add_buffer(BufferRole::output, kCount * sizeof(float)));
  for (int i = 0; i < kCount; ++i) k.input()[i] = static_cast<float>(i);
  CallBinding binding;
  binding.inputs = {floats(k.x)};
  binding.outputs = {floats(k.y)};
  binding.scalars = std::move(scalars);
  auto call = k.worker->prepare(std::get<0>(arm), binding);
  if (auto* fault = std::get_if<Fault>(&call)) return *fault;
  k.call = std::get<0>(call);
  return k;
}

}  // namespace kl::testing
