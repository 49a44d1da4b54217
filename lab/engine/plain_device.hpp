// A device's memory without the worker's guard zones and checks: each allocation is exactly as
// large as was asked for and holds nothing, which is what a tool that watches accesses has to see.
#pragma once

#include <lab/core/result.hpp>

#include <dlpack/dlpack.h>

#include <cstddef>
#include <span>

namespace kl {

class PlainDevice {
 public:
  virtual ~PlainDevice() = default;
  virtual DLDevice device() const = 0;
  virtual void* stream() const = 0;
  virtual Result<void*> allocate(size_t bytes) = 0;  // null for none
  virtual Outcome upload(void* to, std::span<const std::byte> from) = 0;
  virtual Outcome wait() = 0;  // for the stream; says what broke on it
  virtual void free_all() = 0;
};

}  // namespace kl
