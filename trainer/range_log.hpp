// Where a step's time goes: a range for every call of a seam, every matrix product and every pass of the
// trainer's own. Nothing is kept, and nothing asked but one pointer, unless a step is recorded.
#pragma once

#include <lab/core/clock.hpp>
#include <trainer/seam.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kl::trainer {

enum class Pass : uint8_t { data, embedding, sum, copy, clear, loss_sum };

struct StepRange {
  enum class Kind : uint8_t { seam, matmul, pass };
  Kind kind = Kind::pass;
  uint8_t what = 0;       // a Seam or a Pass
  uint8_t operation = 0;  // of the seam's contract
  int32_t m = 0, n = 0, k = 0;
  int64_t begin_ns = 0, end_ns = 0;
};
// "rmsnorm/forward", "matmul/1024x768x256" (m, n, k), "trainer/embedding"
std::string name_of(const StepRange& range);

class RangeLog {
 public:
  // All memory is taken here; what does not fit is counted.
  explicit RangeLog(size_t capacity = size_t{1} << 16) : ranges_(capacity) {}
  void clear() { size_ = 0, dropped_ = 0; }
  void add(const StepRange& range) {
    if (size_ < ranges_.size())
      ranges_[size_++] = range;
    else
      ++dropped_;
  }
  std::span<const StepRange> ranges() const { return std::span(ranges_).first(size_); }
  int64_t dropped() const { return dropped_; }

  static RangeLog* current() { return current_; }  // of the step that is recorded now, or null

 private:
  friend class Recording;
  static inline RangeLog* current_ = nullptr;
  std::vector<StepRange> ranges_;
  size_t size_ = 0;
  int64_t dropped_ = 0;
};

// While it lives, ranges go to `log`; null: nowhere.
class Recording {
 public:
  explicit Recording(RangeLog* log) {
    if (log != nullptr) log->clear();
    RangeLog::current_ = log;
  }
  ~Recording() { RangeLog::current_ = nullptr; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

// The range of its own lifetime, on the step's thread.
class RangeScope {
 public:
  RangeScope(Seam seam, int operation)
      : RangeScope({StepRange::Kind::seam, static_cast<uint8_t>(seam), static_cast<uint8_t>(operation)}) {}
  explicit RangeScope(Pass pass) : RangeScope({StepRange::Kind::pass, static_cast<uint8_t>(pass)}) {}
  RangeScope(int64_t m, int64_t n, int64_t k)
      : RangeScope({StepRange::Kind::matmul, 0, 0, static_cast<int32_t>(m), static_cast<int32_t>(n), static_cast<int32_t>(k)}) {}
  ~RangeScope() {
    if (log_ == nullptr) return;
    range_.end_ns = monotonic_ns();
    log_->add(range_);
  }
  RangeScope(const RangeScope&) = delete;
  RangeScope& operator=(const RangeScope&) = delete;

 private:
  explicit RangeScope(const StepRange& range) : log_(RangeLog::current()), range_(range) {
    if (log_ != nullptr) range_.begin_ns = monotonic_ns();
  }
  RangeLog* const log_;
  StepRange range_;
};

}  // namespace kl::trainer
