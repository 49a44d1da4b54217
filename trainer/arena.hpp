// One allocation for everything a step touches: reserve first, then commit once.
#pragma once

#include <trainer/huge_pages.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace kl::trainer {

class Arena {
 public:
  // `pointer` is set by commit(), 64-byte aligned, to `count` zeroed elements.
  template <class T>
  void reserve(T*& pointer, int64_t count) {
    wanted_.push_back({reinterpret_cast<void**>(&pointer), bytes_});
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
  }
  void commit() {
    memory_.reset(static_cast<char*>(allocate_pages(bytes_)));
    std::memset(memory_.get(), 0, bytes_);
    for (const auto& [pointer, offset] : wanted_) *pointer = memory_.get() + offset;
    wanted_.clear();
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::vector<std::pair<void**, size_t>> wanted_;
  size_t bytes_ = 0;
  std::unique_ptr<char, Free> memory_;
};

}  // namespace kl::trainer
