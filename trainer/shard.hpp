// Token files in the layout that llm.c and modded-nanogpt use: 256 int32 of header (magic
// 20240520, version 1, number of tokens), then the tokens as uint16, all little-endian.
#pragma once

#include <lab/core/result.hpp>

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace kl::trainer {

Outcome write_shard(const std::filesystem::path& path, std::span<const uint16_t> tokens);
// Another magic or version, no tokens, fewer or more than the header says, or one that `vocab` does
// not hold: each an error with the file and the byte at which it is wrong.
Result<std::vector<uint16_t>> read_shard(const std::filesystem::path& path, int64_t vocab = 65536);

}  // namespace kl::trainer
