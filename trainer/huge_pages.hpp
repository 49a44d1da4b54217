// Memory for large arrays on huge pages where the system grants them: with small ones the step's
// speed depends by a few percent on which physical pages a process happens to get.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace kl::trainer {

// Aligned to 64 bytes, and from 2 MB on to a huge page; freed by std::free. Throws std::bad_alloc.
inline void* allocate_pages(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes < kHugePage ? 64 : kHugePage;
  const size_t whole = (bytes == 0 ? 1 : (bytes + alignment - 1) / alignment) * alignment;
  void* memory = std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  // Refused by some systems, and then nothing is lost.
  if (alignment == kHugePage) static_cast<void>(::madvise(memory, whole, MADV_HUGEPAGE));
  return memory;
}

template <class T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(allocate_pages(count * sizeof(T))); }
  void deallocate(T* memory, size_t) { std::free(memory); }
  bool operator==(const HugePages&) const { return true; }
};

}  // namespace kl::trainer
