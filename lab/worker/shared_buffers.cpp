#include <lab/worker/shared_buffers.hpp>

#include <lab/worker/protocol.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kl {
namespace {

// All ones is a NaN in every floating type, so that a value read from outside shows in the result.
constexpr std::byte kCanary{0xFF};
// Address space is free: wide enough that an index off by a row still lands in it.
constexpr uint64_t kGuardBytes = 1 << 20;
constexpr size_t kAlignment = 64;

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

Error no_memory(size_t bytes, std::string_view step) {
  return make_error(Status::error,
                    fmt::format("{} shared bytes: {} failed: {}", bytes, step, std::strerror(errno)),
                    "use smaller shapes, or free memory");
}

}  // namespace

std::string_view to_string(BufferRole role) {
  switch (role) {
    case BufferRole::input: return "input";
    case BufferRole::output: return "output";
    case BufferRole::saved: return "saved";
    case BufferRole::scratch: return "scratch";
  }
  return "buffer";
}

Result<SharedBuffers::Placed> SharedBuffers::add(BufferRole role, size_t bytes) {
  Buffer b{};
  b.role = role;
  b.bytes = bytes;
  // Tensors end exactly where the guard begins. Saved and scratch must start aligned, which leaves
  // a few bytes behind them for a canary.
  const bool aligned = role == BufferRole::saved || role == BufferRole::scratch;
  b.after = aligned ? round_up(bytes, kAlignment) - bytes : 0;
  const size_t pages = round_up(std::max<size_t>(bytes + b.after, 1), page_bytes());
  b.before = pages - bytes - b.after;
  b.address = arena_ + protocol::kArenaMargin + next_ + kGuardBytes;
  if (b.address + pages + kGuardBytes > arena_ + protocol::kArenaBytes)
    return make_error(Status::error, fmt::format("{} shared bytes: the arena is full", bytes),
                      "call drop_buffers between cases");

  const int file = ::memfd_create("kernel-lab", MFD_CLOEXEC);
  if (file < 0) return no_memory(bytes, "memfd_create");
  void* here = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(pages)) == 0)
    here = ::mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (here == MAP_FAILED) {
    const Error error = no_memory(bytes, "mapping");
    ::close(file);
    return error;
  }
  Placed placed{};
  if (role == BufferRole::input && !staged_) {
    // A descriptor opened for reading: no mapping of it can ever be made writable.
    placed.descriptor = ::open(fmt::format("/proc/self/fd/{}", file).c_str(), O_RDONLY | O_CLOEXEC);
    ::close(file);
    if (placed.descriptor < 0) {
      ::munmap(here, pages);
      return no_memory(bytes, "opening it read-only");
    }
  } else {
    placed.descriptor = file;
  }
  b.pages = static_cast<std::byte*>(here);
  std::memset(b.pages, static_cast<int>(kCanary), b.before);
  std::memset(b.pages + b.before + b.bytes, static_cast<int>(kCanary), b.after);
  next_ += round_up(kGuardBytes + pages, kGuardBytes);
  total_bytes_ += static_cast<int64_t>(pages);
  placed.id = static_cast<BufferId>(buffers_.size());
  placed.address = b.address;
  placed.bytes = pages;
  buffers_.push_back(b);
  return placed;
}

void SharedBuffers::clear() {
  for (const Buffer& b : buffers_) ::munmap(b.pages, b.mapped());
  buffers_.clear();
  next_ = 0;
  total_bytes_ = 0;
}

std::byte* SharedBuffers::data(BufferId id) const {
  return has(id) ? buffers_[static_cast<size_t>(id)].pages + buffers_[static_cast<size_t>(id)].before
                 : nullptr;
}
size_t SharedBuffers::size(BufferId id) const {
  return has(id) ? buffers_[static_cast<size_t>(id)].bytes : 0;
}
BufferRole SharedBuffers::role(BufferId id) const { return buffers_[static_cast<size_t>(id)].role; }

uint64_t SharedBuffers::address(BufferId id) const {
  return has(id) ? buffers_[static_cast<size_t>(id)].address + buffers_[static_cast<size_t>(id)].before
                 : 0;
}

std::pair<uint64_t, uint64_t> SharedBuffers::pages(BufferId id) const {
  const Buffer& b = buffers_[static_cast<size_t>(id)];
  return {b.address, b.mapped()};
}

std::optional<SharedBuffers::Touched> SharedBuffers::touched(uint64_t at) const {
  if (arena_ == 0 || at < arena_ || at >= arena_ + protocol::kArenaBytes) return std::nullopt;
  Touched nearest;
  uint64_t distance = UINT64_MAX;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const auto id = static_cast<BufferId>(i);
    const uint64_t begin = address(id), end = begin + size(id);
    const uint64_t away = at < begin ? begin - at : at >= end ? at - end + 1 : 0;
    if (away >= distance) continue;
    distance = away;
    nearest = {id, away == 0, static_cast<int64_t>(at - begin)};
  }
  return nearest;
}

std::optional<SharedBuffers::Touched> SharedBuffers::broken_canary() {
  std::optional<Touched> first;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& b = buffers_[i];
    const auto check = [&](size_t from, size_t count) {
      for (size_t k = from; k < from + count; ++k) {
        if (b.pages[k] == kCanary) continue;
        if (!first)
          first = Touched{static_cast<BufferId>(i), false,
                          static_cast<int64_t>(k) - static_cast<int64_t>(b.before)};
        b.pages[k] = kCanary;
      }
    };
    check(0, b.before);
    check(b.before + b.bytes, b.after);
  }
  return first;
}

std::string SharedBuffers::name(BufferId id) const {
  return fmt::format("{} buffer {} of {} bytes", to_string(role(id)), id, size(id));
}

}  // namespace kl
