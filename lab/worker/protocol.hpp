// What parent and worker say to each other: one request, one reply, each one bounded datagram on a
// SOCK_SEQPACKET pair. A reply repeats its request's token, which is random, so that it cannot be
// written ahead of time.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kl::protocol {

inline constexpr uint32_t kVersion = 3;
inline constexpr size_t kMessageBytes = 60 << 10;
inline constexpr int kChannelFd = 3;
inline constexpr int kStatusFd = 4;

// Address space kept free for shared buffers in the worker: a power of two, aligned to itself, so
// that one masked comparison in the system call filter covers it.
inline constexpr uint64_t kArenaBytes = uint64_t{1} << 38;
// Nothing is placed in its first part: a range that starts below the arena cannot reach a buffer
// unless it is longer than this, and the filter denies such lengths.
inline constexpr uint64_t kArenaMargin = uint64_t{1} << 32;

enum class Kind : uint32_t {
  hello, load, map, clear, domain, prepare, run, flush, inspect,
  // On a device only.
  run_timed, check_after, keep_pool, draw, fill, fetch, fetch_replay
};

struct Header {
  uint32_t kind = 0;
  uint32_t failed = 0;  // replies: the host could not do it; the body is a text
  uint64_t token = 0;
};

// Fields in order, without names: both sides are built from this header.
class Writer {
 public:
  explicit Writer(Header header) { put(header); }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Writer& put(const T& value) {
    const auto* p = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
    return *this;
  }
  Writer& put_text(std::string_view text, size_t limit = 4096) {
    text = text.substr(0, limit);
    put(static_cast<uint32_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  template <class T>
  Writer& put_list(const std::vector<T>& items) {
    put(static_cast<uint32_t>(items.size()));
    for (const T& item : items) put(item);
    return *this;
  }
  std::span<const char> bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

// Reading past the end yields zeros and ok() == false.
class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : bytes_(bytes) {}
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value{};
    if (const char* p = take(sizeof value)) std::memcpy(&value, p, sizeof value);
    return value;
  }
  std::string get_text() {
    const auto size = get<uint32_t>();
    const char* p = take(size);
    return p == nullptr ? std::string() : std::string(p, size);
  }
  template <class T>
  std::vector<T> get_list() {
    const auto count = get<uint32_t>();
    std::vector<T> items;
    if (count > bytes_.size() / sizeof(T)) ok_ = false;
    for (uint32_t i = 0; ok_ && i < count; ++i) items.push_back(get<T>());
    return items;
  }
  bool ok() const { return ok_; }

 private:
  const char* take(size_t size) {
    if (size > bytes_.size()) ok_ = false;
    if (!ok_) return nullptr;
    const char* p = bytes_.data();
    bytes_ = bytes_.subspan(size);
    return p;
  }
  std::span<const char> bytes_;
  bool ok_ = true;
};

struct Hello {
  uint32_t version = kVersion;
  int32_t threads = 1;
  int64_t memory_bytes = 0;
  int64_t flush_bytes = 0;  // 0: twice the last-level cache
  // Followed by the text of WorkerLimits::device.
};

struct HelloReply {
  uint32_t version = kVersion;
  uint32_t landlock = 0;  // 0: not applied
  uint32_t seccomp = 0;
  uint32_t no_new_privs = 0;
  uint32_t memory_locked = 0;  // candidate threads cannot change protections in the arena
  int32_t candidate_thread = 0;
  uint64_t arena = 0;
};

// A file to map at an address of the arena; the descriptor travels beside it.
struct Map {
  int32_t buffer = 0;
  uint32_t role = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t data_address = 0;
  uint64_t data_bytes = 0;
  uint32_t written = 0;  // by calls; else never
  uint32_t locked = 0;   // read-only while no call runs
};

// Memory that is writable only while `run` runs.
struct Range {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

struct RunReply {
  int32_t code = 0;
  uint32_t threw = 0;
  int64_t begin_ns = 0;      // CLOCK_MONOTONIC, by system call
  int64_t end_ns = 0;
  int64_t protection_ns = 0;  // processor time the host itself spent on unlocking and locking
  uint64_t control_before = 0;  // floating-point control state of the candidate's thread
  uint64_t control_after = 0;
  // On a device.
  int64_t span_ns = -1;
  int64_t bracket_ns = 0;
  int32_t graph_nodes = -1;
  int32_t plan_written = 0;  // on the host too: `run` changed what it is lent to read
  int64_t replay_differs_bytes = 0;
};

// A fault of a device's, before everything else a reply there holds.
struct WireFault {
  uint32_t there_is = 0;
  uint32_t status = 0;
  uint32_t fatal = 0;
};

struct PoolOf {
  int32_t buffer = 0;
  DLDataType dtype{kDLFloat, 32, 1};
};
struct DrawOf {
  int32_t buffer = 0;
  int64_t rotation = 0;
  double factor = 1;
};
struct FillOf {
  int32_t buffer = 0;
  uint32_t unit_bytes = 0;
  uint64_t unit = 0;
};
struct PartOf {
  int32_t buffer = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct InspectReply {
  uint64_t control_expected = 0;
  uint64_t control_found = 0;  // of the first thread that differs, else as expected
  int32_t pool_threads = 0;
  uint32_t environment_changed = 0;
};

}  // namespace kl::protocol
