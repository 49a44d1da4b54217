#include <trainer/dataset.hpp>

#include <trainer/random.hpp>

#include <algorithm>

namespace kl::trainer {
namespace {

constexpr size_t kWaiting = 256;

}  // namespace

RowPacker::RowPacker(std::span<const uint16_t> tokens, int32_t bos, int64_t sequence, uint64_t seed, bool shuffle)
    : tokens_(tokens), bos_(bos), sequence_(sequence), seed_(seed), shuffle_(shuffle),
      row_(static_cast<size_t>(sequence) + 1) {
  const auto size = static_cast<int64_t>(tokens.size());
  for (int64_t at = 0; at < size;) {
    if (tokens[static_cast<size_t>(at)] == bos_) ++at;
    int64_t end = at;
    while (end < size && tokens[static_cast<size_t>(end)] != bos_) ++end;
    for (; at < end; at += sequence) pieces_.push_back({at, std::min(sequence, end - at)});
    at = end;
  }
  waiting_.reserve(kWaiting + 1);
  shuffle_epoch();
}

void RowPacker::shuffle_epoch() {
  cursor_ = 0;
  const uint64_t key = mix64(seed_ + mix64(++epoch_));
  if (!shuffle_) return;
  for (size_t i = pieces_.size(); i > 1; --i) std::swap(pieces_[i - 1], pieces_[mix64(key + i) % i]);
}

void RowPacker::refill() {
  while (waiting_.size() < kWaiting) {
    if (cursor_ == pieces_.size()) shuffle_epoch();
    waiting_.push_back(pieces_[cursor_++]);
  }
}

RowPacker::Piece RowPacker::take(int64_t room) {
  refill();
  size_t best = 0, shortest = 0;
  bool fits = false;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const int64_t length = waiting_[i].length;
    if (length < waiting_[shortest].length) shortest = i;
    if (length <= room && (!fits || length > waiting_[best].length)) {
      best = i;
      fits = true;
    }
  }
  const size_t chosen = fits ? best : shortest;
  Piece piece = waiting_[chosen];
  if (fits) {
    waiting_[chosen] = waiting_.back();
    waiting_.pop_back();
  } else {
    waiting_[chosen] = {piece.begin + room, piece.length - room};
    piece.length = room;
  }
  return piece;
}

void RowPacker::next(int32_t* inputs, int32_t* targets) {
  const auto size = static_cast<int64_t>(row_.size());
  for (int64_t at = 0; at < size;) {
    row_[static_cast<size_t>(at++)] = bos_;
    if (at == size) break;
    const Piece piece = take(size - at);
    for (int64_t i = 0; i < piece.length; ++i)
      row_[static_cast<size_t>(at++)] = tokens_[static_cast<size_t>(piece.begin + i)];
  }
  std::copy(row_.begin(), row_.end() - 1, inputs);
  std::copy(row_.begin() + 1, row_.end(), targets);
}

}  // namespace kl::trainer
