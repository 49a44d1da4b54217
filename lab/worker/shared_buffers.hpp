// The tensors of a worker's calls: shared memory that the parent owns, placed in the worker's arena
// between guard zones, with canaries in the slack of the first and last page.
#pragma once

#include <lab/worker/worker.hpp>

#include <optional>

namespace kl {

class SharedBuffers {
 public:
  SharedBuffers() = default;
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;
  ~SharedBuffers() { clear(); }

  void set_arena(uint64_t begin) { arena_ = begin; }
  // The worker may write inputs too: there they are what is uploaded, not what a call sees.
  void stage_for_device() { staged_ = true; }

  struct Placed {
    BufferId id;
    int descriptor;  // for the worker; the caller closes it
    uint64_t address, bytes;  // of the mapping in the worker
  };
  Result<Placed> add(BufferRole role, size_t bytes);
  void clear();
  bool has(BufferId id) const { return id >= 0 && static_cast<size_t>(id) < buffers_.size(); }

  std::byte* data(BufferId id) const;
  size_t size(BufferId id) const;
  BufferRole role(BufferId id) const;
  int64_t total_bytes() const { return total_bytes_; }

  uint64_t address(BufferId id) const;  // of the data in the worker
  // Whole pages around the data, in the worker.
  std::pair<uint64_t, uint64_t> pages(BufferId id) const;

  // What touching this address of the worker means. Nothing outside the arena.
  struct Touched {
    BufferId id = -1;      // the nearest buffer; -1: none
    bool inside = false;   // its data, else the zone around it
    int64_t offset = 0;    // from its first byte
  };
  std::optional<Touched> touched(uint64_t address) const;

  // The first changed canary byte, and restores all.
  std::optional<Touched> broken_canary();
  // "output 1 (buffer 3, 4096 bytes)"
  std::string name(BufferId id) const;

 private:
  struct Buffer {
    BufferRole role;
    size_t bytes;         // as asked for
    size_t before;        // canary bytes in front
    size_t after;         // canary bytes behind
    uint64_t address;     // of the first page in the worker
    std::byte* pages;     // of the first page here
    size_t mapped() const { return before + bytes + after; }
  };
  std::vector<Buffer> buffers_;
  bool staged_ = false;
  uint64_t arena_ = 0;
  uint64_t next_ = 0;
  int64_t total_bytes_ = 0;
};

std::string_view to_string(BufferRole role);

}  // namespace kl
