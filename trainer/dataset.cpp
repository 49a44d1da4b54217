#include <trainer/dataset.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/installation.hpp>
#include <trainer/random.hpp>
#include <trainer/shard.hpp>
#include <trainer/shard_folder.hpp>
#include <trainer/tokenizer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <unistd.h>

namespace kl::trainer {
namespace {

constexpr std::string_view kFormat = "3";  // raise when what is cached changes
constexpr size_t kShardTokens = 100'000'000;

struct Document {
  uint64_t hash;
  std::string text;
};

fs::path shard_path(const fs::path& folder, const std::string& split, int64_t index) {
  std::string number = std::to_string(index);
  number.insert(0, 6 - std::min<size_t>(6, number.size()), '0');
  return folder / (split + "-" + number + ".bin");
}

// By hash: a fixed shuffle, and a fair sample when only part of the text is wanted.
std::vector<Document> choose(std::vector<std::string> texts, int64_t limit_bytes) {
  std::vector<Document> documents;
  documents.reserve(texts.size());
  for (auto& text : texts)
    if (!text.empty()) documents.push_back({document_hash(text), std::move(text)});
  std::sort(documents.begin(), documents.end(), [](const Document& a, const Document& b) {
    return std::tie(a.hash, a.text) < std::tie(b.hash, b.text);
  });
  int64_t bytes = 0;
  size_t kept = 0;
  while (kept < documents.size() && (limit_bytes == 0 || bytes < limit_bytes))
    bytes += static_cast<int64_t>(documents[kept++].text.size());
  documents.resize(kept);
  return documents;
}

Result<Tokenizer> train_tokenizer(const Config& config, const std::vector<Document>& documents,
                                  const fs::path& folder) {
  std::string sample;
  for (const Document& document : documents) {
    if (static_cast<int64_t>(sample.size()) >= config.tokenizer_bytes) break;
    if (is_held_out(document.hash, config.held_out_percent)) continue;
    sample.append(document.text, 0, static_cast<size_t>(config.tokenizer_bytes));
    sample.push_back('\n');
  }
  const fs::path file = folder / "sample.txt";
  KL_CHECK(write_file_atomic(file, sample));
  KL_CHECK(Tokenizer::train(file, folder / "tokenizer", config.vocab));
  std::error_code ignored;
  fs::remove(file, ignored);
  return Tokenizer::load(folder / "tokenizer.model");
}

// Every document's tokens, in order; parallel, because encoding dominates.
Result<std::vector<std::vector<int>>> encode_all(const Tokenizer& tokenizer,
                                                 const std::vector<Document>& documents) {
  std::vector<std::vector<int>> encoded(documents.size());
  std::atomic<bool> failed = false;
  Error error;
#pragma omp parallel for schedule(dynamic, 64)
  for (size_t i = 0; i < documents.size(); ++i) {
    auto ids = tokenizer.encode(documents[i].text);
    if (ids.ok())
      encoded[i] = std::move(ids).value();
    else if (!failed.exchange(true))
      error = ids.error();
  }
  if (failed) return error;
  return encoded;
}

Outcome make_dataset(const Config& config, const Corpus& corpus, const fs::path& folder,
                     const Progress& progress) {
  report(progress, {0, 4, "parts", "reading " + corpus.name});
  KL_TRY(std::vector<std::string> texts, read_documents(corpus));
  const std::vector<Document> documents = choose(std::move(texts), config.corpus_bytes);
  if (documents.empty())
    return make_error(Status::usage, "the corpus " + corpus.name + " holds no text", "name another");
  report(progress, {1, 4, "parts", "training a vocabulary of " + std::to_string(config.vocab)});
  KL_TRY(const Tokenizer tokenizer, train_tokenizer(config, documents, folder));
  report(progress, {2, 4, "parts", "encoding " + std::to_string(documents.size()) + " documents"});
  KL_TRY(const auto encoded, encode_all(tokenizer, documents));
  report(progress, {3, 4, "parts", "writing shards"});
  DatasetFacts facts;
  facts.corpus = corpus.name;
  facts.corpus_hash = corpus.hash;
  facts.bos = tokenizer.bos();
  facts.piece_bytes = tokenizer.piece_bytes();
  std::vector<uint16_t> train, held_out;
  for (size_t i = 0; i < documents.size(); ++i) {
    const bool held = is_held_out(documents[i].hash, config.held_out_percent);
    auto& split = held ? held_out : train;
    split.push_back(static_cast<uint16_t>(facts.bos));
    for (const int id : encoded[i]) split.push_back(static_cast<uint16_t>(id));
    facts.held_out_documents += held;
    facts.bytes += static_cast<int64_t>(documents[i].text.size());
  }
  if (train.empty() || held_out.empty())
    return make_error(Status::usage,
                      "the corpus " + corpus.name + " has " + std::to_string(documents.size()) +
                          " documents, none of them " + (train.empty() ? "to train on" : "held out"),
                      "give more documents (one file, or one JSON line, is one), or raise held_out_percent");
  facts.documents = static_cast<int64_t>(documents.size());
  facts.train_tokens = static_cast<int64_t>(train.size());
  facts.held_out_tokens = static_cast<int64_t>(held_out.size());
  facts.unigram_bpb = unigram_bits_per_byte(held_out, facts.piece_bytes);
  for (size_t at = 0; at < train.size(); at += kShardTokens)
    KL_CHECK(write_shard(shard_path(folder, "train", facts.train_shards++),
                         std::span(train).subspan(at, std::min(kShardTokens, train.size() - at))));
  KL_CHECK(write_shard(shard_path(folder, "held-out", 0), held_out));
  return write_file_atomic(folder / "dataset.json", dump_line(to_json(facts)));
}

Result<Dataset> load_dataset(const fs::path& folder) {
  Dataset dataset;
  dataset.folder = folder;
  KL_TRY(const Json json, read_json_file(folder / "dataset.json"));
  KL_TRY(dataset.facts, from_json<DatasetFacts>(json));
  for (int64_t i = 0; i < dataset.facts.train_shards; ++i) {
    KL_TRY(const auto tokens, read_shard(shard_path(folder, "train", i)));
    dataset.train.insert(dataset.train.end(), tokens.begin(), tokens.end());
  }
  KL_TRY(dataset.held_out, read_shard(shard_path(folder, "held-out", 0)));
  return dataset;
}

Result<Dataset> open_prepared(const fs::path& folder) {
  std::error_code code;
  if (fs::exists(folder / "dataset.json", code)) return load_dataset(folder);
  return make_error(Status::usage, "KERNEL_LAB_DATA names " + folder.string() + ", which holds no dataset.json",
                    "name the folder that `kernel-lab-train data` printed where it was made, or unset it");
}

}  // namespace

bool is_held_out(uint64_t hash, double percent) { return unit(mix64(hash)) * 100 < percent; }

double unigram_bits_per_byte(std::span<const uint16_t> tokens, std::span<const int32_t> piece_bytes) {
  std::vector<int64_t> counts(piece_bytes.size(), 0);
  int64_t total = 0, bytes = 0;
  for (const uint16_t token : tokens) {
    if (piece_bytes[token] == 0) continue;
    ++counts[token];
    ++total;
    bytes += piece_bytes[token];
  }
  double bits = 0;
  for (const int64_t count : counts)
    if (count > 0)
      bits -= static_cast<double>(count) * std::log2(static_cast<double>(count) / static_cast<double>(total));
  return bytes == 0 ? 0 : bits / static_cast<double>(bytes);
}

Result<Dataset> open_dataset(const Config& config, const Progress& progress) {
  if (const char* prepared = std::getenv("KERNEL_LAB_DATA"); prepared != nullptr && *prepared != '\0')
    return open_prepared(prepared);
  const bool named = config.corpus == "gcide";  // whatever lies in ./gcide
  if (std::error_code none; !named && fs::exists(fs::path(config.corpus) / "dataset.json", none))
    return load_dataset(config.corpus);
  if (!named && is_shard_folder(config.corpus)) {
    report(progress, {0, 1, "parts", "reading the shards in " + config.corpus});
    return open_shard_folder(config, config.corpus);
  }
  KL_TRY(const Corpus corpus, find_corpus(config.corpus));
  const std::string key =
      sha256_fields({kFormat, corpus.hash, std::to_string(config.vocab),
                     std::to_string(config.tokenizer_bytes), std::to_string(config.corpus_bytes),
                     std::to_string(config.held_out_percent)});
  const fs::path corpora = cache_folder() / "corpora";
  const fs::path folder = corpora / key.substr(0, 32);
  std::error_code code;
  if (fs::exists(folder / "dataset.json", code)) return load_dataset(folder);
  static std::atomic<int> attempts = 0;  // two threads of one process must not share a folder
  const fs::path making = corpora / fmt::format(".making-{}-{}-{}", key.substr(0, 16), getpid(), ++attempts);
  fs::remove_all(making, code);
  KL_CHECK(make_directories(making));
  if (const Outcome made = make_dataset(config, corpus, making, progress); !made.ok()) {
    fs::remove_all(making, code);
    return made.error();
  }
  fs::rename(making, folder, code);
  if (code) {  // another process was first, or the cache cannot be written
    std::error_code ignored;
    fs::remove_all(making, ignored);
    if (!fs::exists(folder / "dataset.json", ignored))
      return make_error(Status::error, "cannot write " + folder.string() + ": " + code.message(),
                        "free some space, or set KERNEL_LAB_CACHE to a folder that can be written");
  }
  return load_dataset(folder);
}

}  // namespace kl::trainer
