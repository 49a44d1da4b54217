// A corpus made ready: vocabulary, shards and the held-out split, cached by content.
#pragma once

#include <lab/core/progress.hpp>
#include <trainer/config.hpp>
#include <trainer/corpus.hpp>

#include <span>

namespace kl::trainer {

constexpr int32_t kBos = 1;  // of the vocabularies made here

struct DatasetFacts {
  std::string corpus;       // name
  std::string corpus_hash;  // of the source files
  int64_t documents = 0;
  int64_t bytes = 0;
  int64_t train_tokens = 0;
  int64_t held_out_tokens = 0;
  int64_t held_out_documents = 0;
  int64_t train_shards = 0;
  double unigram_bpb = 0;
  int32_t bos = kBos;
  std::vector<int32_t> piece_bytes;
  std::string bpb_unknown;

  static constexpr std::string_view kSchema = "dataset";
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("corpus", self.corpus, "name of the corpus");
    v("corpus_hash", self.corpus_hash, "SHA-256 of its files' hashes");
    v("documents", self.documents, "documents used");
    v("bytes", self.bytes, "bytes of text used; 0: unknown");
    v("train_tokens", self.train_tokens, "tokens to train on, BOS included");
    v("held_out_tokens", self.held_out_tokens, "tokens held out, BOS included");
    v("held_out_documents", self.held_out_documents, "documents held out");
    v("train_shards", self.train_shards, "files of tokens to train on");
    v("unigram_bpb", self.unigram_bpb,
      "entropy of the held-out text's own token frequencies, in bits per byte; null: unknown");
    v("bos", self.bos, "token that starts every document");
    v("piece_bytes", self.piece_bytes, "bytes of text each token stands for; empty: unknown");
    v("bpb_unknown", self.bpb_unknown, "why no bits per byte can be told; empty: they can");
  }
};

struct Dataset {
  std::filesystem::path folder;
  DatasetFacts facts;
  std::vector<uint16_t> train, held_out;
};

// From the cache, or made now: read, split, train the vocabulary, encode, write. Two processes may
// do this at once; both succeed. A corpus that is a folder of token shards is read where it lies
// (shard_folder.hpp). KERNEL_LAB_DATA, or a corpus that is such a folder, names what `data` prepared
// elsewhere: it is used as it is.
Result<Dataset> open_dataset(const Config& config, const Progress& progress);

bool is_held_out(uint64_t document_hash, double percent);
// Bits per byte of the tokens' own frequencies, over tokens that stand for bytes.
double unigram_bits_per_byte(std::span<const uint16_t> tokens, std::span<const int32_t> piece_bytes);

// Rows of T+1 tokens that start with BOS, packed from documents without padding: the longest
// waiting document that fits comes next; when none fits, the shortest is cut and its rest waits.
class RowPacker {
 public:
  RowPacker(std::span<const uint16_t> tokens, int32_t bos, int64_t sequence, uint64_t seed, bool shuffle);
  // inputs[T] and the same row shifted by one, targets[T]. Allocates nothing.
  void next(int32_t* inputs, int32_t* targets);

 private:
  struct Piece {
    int64_t begin, length;  // tokens after BOS
  };
  Piece take(int64_t room);
  void refill();
  void shuffle_epoch();
  std::span<const uint16_t> tokens_;
  int32_t bos_;
  int64_t sequence_;
  uint64_t seed_, epoch_ = 0;
  bool shuffle_;
  std::vector<Piece> pieces_;   // of an epoch, in order
  std::vector<Piece> waiting_;
  size_t cursor_ = 0;
  std::vector<int32_t> row_;
};

}  // namespace kl::trainer
