// The vocabulary: SentencePiece BPE with byte fallback, and how many bytes each piece stands for.
#pragma once

#include <lab/core/result.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace kl::trainer {

class Tokenizer {
 public:
  // Writes PREFIX.model. `sample` holds one sentence a line.
  static Outcome train(const std::filesystem::path& sample, const std::filesystem::path& prefix,
                       int64_t vocab);
  static Result<Tokenizer> load(const std::filesystem::path& model);
  Tokenizer(Tokenizer&&) noexcept;
  ~Tokenizer();

  int64_t vocab() const;
  int32_t bos() const;  // starts every document; -1: the model has none
  // Without BOS. Safe from several threads at once.
  Result<std::vector<int>> encode(std::string_view text) const;
  // Bytes of text per piece, from the piece itself: a byte piece 1, control pieces 0.
  std::vector<int32_t> piece_bytes() const;

 private:
  Tokenizer();
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace kl::trainer
