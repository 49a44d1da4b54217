// What is known of a vocabulary made elsewhere: bytes of each token, and the one between documents.
#pragma once

#include <lab/core/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kl::trainer {

struct PieceTable {
  int32_t bos = 50256;           // GPT-2's end of text, which its data sets put before a document
  std::vector<int32_t> bytes;    // by token; 0 for the separator; empty: unknown
  std::filesystem::path file;    // where it comes from; empty: nothing was found
};

// The first of these in `folder`, or an empty table: tokenizer.model (SentencePiece),
// gpt2_tokenizer.bin (llm.c's list of GPT-2's pieces), piece_bytes.txt (one number a token).
Result<PieceTable> find_piece_table(const std::filesystem::path& folder);

}  // namespace kl::trainer
