#include <trainer/shard_folder.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <trainer/piece_table.hpp>
#include <trainer/shard.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kl::trainer {
namespace {

struct ShardFiles {
  std::vector<fs::path> train, held_out;
};

// "train" in fineweb_train_000001.bin: a word of the name between separators.
bool has_word(const std::string& name, std::string_view word) {
  const auto separates = [&name](size_t at) { return at >= name.size() || !std::isalnum(static_cast<unsigned char>(name[at])); };
  for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1))
    if ((at == 0 || separates(at - 1)) && separates(at + word.size())) return true;
  return false;
}

Result<ShardFiles> shard_files(const fs::path& folder, const fs::path& table) {
  ShardFiles files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const fs::path& file = entry.path();
    if (file.extension() != ".bin" || file.filename() == table.filename()) continue;
    const bool train = has_word(file.stem(), "train"), val = has_word(file.stem(), "val");
    if (train == val)
      return make_error(Status::usage, file.string() + ": the name does not say train or val",
                        "name shards NAME_train_000001.bin and NAME_val_000000.bin; keep other .bin files elsewhere");
    (train ? files.train : files.held_out).push_back(file);
  }
  for (const auto& [list, word] : {std::pair(&files.train, "train"), {&files.held_out, "val"}}) {
    if (list->empty())
      return make_error(Status::usage, fmt::format("no shard {} in {}", fmt::format("*_{}_*.bin", word), folder.string()),
                        "give shards to train on and shards to evaluate with");
    std::sort(list->begin(), list->end());
  }
  return files;
}

// Appends a split's shards; stops after `limit_bytes` of files (0: reads all). The files' hashes are added to `hashes`.
Result<int64_t> read_split(const std::vector<fs::path>& files, int64_t vocab, int64_t limit_bytes,
                           std::vector<uint16_t>& tokens, std::string& hashes) {
  int64_t read = 0, bytes = 0;
  for (const auto& file : files) {
    if (limit_bytes > 0 && bytes >= limit_bytes) break;
    KL_TRY(const auto shard, read_shard(file, vocab));
    tokens.insert(tokens.end(), shard.begin(), shard.end());
    KL_TRY(const std::string hash, sha256_file(file));
    hashes += hash;
    bytes += static_cast<int64_t>(shard.size() * sizeof(uint16_t));
    ++read;
  }
  return read;
}

// How often the separator occurs; text beside it must be there, or no row can be filled.
Result<int64_t> count_documents(const std::vector<uint16_t>& tokens, int32_t bos, const fs::path& file) {
  const auto count = std::count(tokens.begin(), tokens.end(), static_cast<uint16_t>(bos));
  if (static_cast<size_t>(count) == tokens.size())
    return make_error(Status::error, fmt::format("{} and its like hold nothing but token {}", file.string(), bos),
                      "it separates documents: make the shards again");
  return static_cast<int64_t>(count);
}

int64_t bytes_of(std::span<const uint16_t> tokens, const std::vector<int32_t>& piece_bytes) {
  int64_t bytes = 0;
  for (const uint16_t token : tokens) bytes += piece_bytes[token];
  return bytes;
}

}  // namespace

bool is_shard_folder(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) return false;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (entry.path().extension() == ".bin" && entry.is_regular_file(code)) return true;
  return false;
}

Result<Dataset> open_shard_folder(const Config& config, const fs::path& folder) {
  KL_TRY(PieceTable table, find_piece_table(folder));
  KL_TRY(const ShardFiles files, shard_files(folder, table.file));
  if (table.bos >= config.vocab)
    return make_error(Status::usage,
                      fmt::format("token {} separates the documents of {}, the vocabulary has {}", table.bos,
                                  folder.string(), config.vocab),
                      "raise vocab (50304 holds GPT-2's), or put the shards' tokenizer.model beside them");
  if (static_cast<int64_t>(table.bytes.size()) > config.vocab)
    return make_error(Status::usage,
                      fmt::format("{} has {} pieces, the vocabulary {}", table.file.string(), table.bytes.size(),
                                  config.vocab),
                      "raise vocab");
  Dataset dataset;
  dataset.folder = folder;
  DatasetFacts& facts = dataset.facts;
  std::string hashes;
  KL_TRY(facts.train_shards, read_split(files.train, config.vocab, config.corpus_bytes, dataset.train, hashes));
  KL_TRY(const int64_t held_out, read_split(files.held_out, config.vocab, 0, dataset.held_out, hashes));
  static_cast<void>(held_out);
  facts.corpus = fs::weakly_canonical(folder).filename().string();
  facts.bos = table.bos;
  facts.train_tokens = static_cast<int64_t>(dataset.train.size());
  facts.held_out_tokens = static_cast<int64_t>(dataset.held_out.size());
  KL_TRY(const int64_t documents, count_documents(dataset.train, table.bos, files.train.front()));
  KL_TRY(facts.held_out_documents, count_documents(dataset.held_out, table.bos, files.held_out.front()));
  if (documents == 0)
    return make_error(Status::error,
                      fmt::format("{} and its like hold no token {}, which starts a document", files.train.front().string(),
                                  table.bos),
                      "put the tokenizer of these shards beside them: tokenizer.model or gpt2_tokenizer.bin");
  facts.documents = documents + facts.held_out_documents;
  if (table.bytes.empty()) {
    facts.unigram_bpb = std::nan("");
    facts.bpb_unknown = "no tokenizer.model, gpt2_tokenizer.bin or piece_bytes.txt beside the shards says how many "
                        "bytes a token stands for";
  } else {
    KL_TRY(const std::string hash, sha256_file(table.file));
    hashes += hash;
    table.bytes.resize(static_cast<size_t>(config.vocab), 0);
    facts.bytes = bytes_of(dataset.train, table.bytes) + bytes_of(dataset.held_out, table.bytes);
    facts.unigram_bpb = unigram_bits_per_byte(dataset.held_out, table.bytes);
    facts.piece_bytes = std::move(table.bytes);
  }
  facts.corpus_hash = sha256_hex(hashes);
  return dataset;
}

}  // namespace kl::trainer
