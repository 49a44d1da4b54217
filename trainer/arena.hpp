// One allocation for everything a step touches: reserve first, then commit once.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
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
    memory_.reset(static_cast<char*>(std::aligned_alloc(64, bytes_ == 0 ? 64 : bytes_)));
    if (!memory_) throw std::bad_alloc();
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
