// A corpus of token shards made elsewhere, as llm.c and modded-nanogpt lay them out and name them:
// NAME_train_000001.bin, NAME_val_000000.bin, or NAME_train.bin, NAME_val.bin.
#pragma once

#include <trainer/dataset.hpp>

namespace kl::trainer {

// A folder that holds .bin files itself.
bool is_shard_folder(const std::filesystem::path& folder);

// Shards in the order of their names, those to train on until config.corpus_bytes are reached (0: all). Every
// token is checked against config.vocab. Bits per byte need a piece table in the folder (piece_table.hpp).
Result<Dataset> open_shard_folder(const Config& config, const std::filesystem::path& folder);

}  // namespace kl::trainer
