#include <trainer/piece_table.hpp>
#include <trainer/run.hpp>
#include <trainer/shard.hpp>
#include <trainer/shard_folder.hpp>
#include <trainer/test_corpus.hpp>
#include <trainer/test_libraries.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace kl::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint16_t kEnd = 50256;  // GPT-2's end of text

class ShardFolderTest : public testing::Test {
 protected:
  fs::path folder() const { return corpus_.folder() / "fineweb"; }
  void shard(const std::string& name, const std::vector<uint16_t>& tokens) const {
    ASSERT_TRUE(write_shard(folder() / name, tokens).ok());
  }
  // Two shards to train on, the second of which goes on in a document of the first; one to evaluate with.
  void usual() const {
    shard("fineweb_train_000002.bin", {12, 13, kEnd, 14});
    shard("fineweb_train_000001.bin", {kEnd, 10, 11});
    shard("fineweb_val_000000.bin", {kEnd, 20, 21, kEnd, 20});
  }
  Config config() const {
    Config c = corpus_.config();
    c.vocab = 50304;
    c.corpus = folder().string();
    return c;
  }
  Result<Dataset> open() const { return open_dataset(config(), {}); }
  std::string error() const {
    const auto dataset = open();
    EXPECT_FALSE(dataset.ok());
    return dataset.ok() ? "" : dataset.error().what + "; " + dataset.error().remedy;
  }
  void file(const std::string& name, const std::string& content) const {
    ASSERT_TRUE(write_file_atomic(folder() / name, content).ok());
  }
  // llm.c's list of pieces: piece i has lengths[i] bytes.
  static std::string llmc_tokenizer(const std::vector<uint8_t>& lengths, uint32_t end) {
    const uint32_t header[4] = {20240328, 2, static_cast<uint32_t>(lengths.size()), end};
    std::string bytes(1024, '\0');
    std::memcpy(bytes.data(), header, sizeof(header));
    for (const uint8_t length : lengths) {
      bytes.push_back(static_cast<char>(length));
      bytes.append(length, 'x');
    }
    return bytes;
  }
  TestCorpus corpus_;
};

TEST_F(ShardFolderTest, ShardsOfOthersAreReadInTheOrderOfTheirNames) {
  usual();
  const auto dataset = open();
  ASSERT_TRUE(dataset.ok()) << dataset.error().what;
  EXPECT_THAT(dataset->train, ElementsAre(kEnd, 10, 11, 12, 13, kEnd, 14));
  EXPECT_THAT(dataset->held_out, ElementsAre(kEnd, 20, 21, kEnd, 20));
  EXPECT_EQ(dataset->facts.bos, kEnd);
  EXPECT_EQ(dataset->facts.train_shards, 2);
  EXPECT_EQ(dataset->facts.documents, 4);
  EXPECT_EQ(dataset->facts.held_out_documents, 2);
  EXPECT_EQ(dataset->facts.corpus, "fineweb");
  EXPECT_EQ(dataset->facts.corpus_hash.size(), 64u);
  EXPECT_TRUE(std::isnan(dataset->facts.unigram_bpb));
  EXPECT_THAT(dataset->facts.bpb_unknown, HasSubstr("tokenizer.model"));
}

TEST_F(ShardFolderTest, ADocumentMayGoOnInTheNextShard) {
  usual();
  const auto dataset = open();
  ASSERT_TRUE(dataset.ok());
  RowPacker rows(dataset->train, dataset->facts.bos, 6, 1, false);
  std::vector<int32_t> inputs(6), targets(6);
  rows.next(inputs.data(), targets.data());
  EXPECT_THAT(inputs, ElementsAre(kEnd, 10, 11, 12, 13, kEnd));
  EXPECT_THAT(targets, ElementsAre(10, 11, 12, 13, kEnd, 14));
}

TEST_F(ShardFolderTest, ShortNamesAreReadToo) {
  shard("tiny_shakespeare_train.bin", {kEnd, 10, 11});
  shard("tiny_shakespeare_val.bin", {10, 11});  // begins within a document
  const auto dataset = open();
  ASSERT_TRUE(dataset.ok()) << dataset.error().what;
  EXPECT_EQ(dataset->held_out.size(), 2u);
}

TEST_F(ShardFolderTest, CorpusBytesBoundTheShardsToTrainOn) {
  usual();
  Config c = config();
  c.corpus_bytes = 6;
  const auto dataset = open_dataset(c, {});
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ(dataset->train.size(), 3u);
  EXPECT_NE(dataset->facts.corpus_hash, open()->facts.corpus_hash);
}

TEST_F(ShardFolderTest, WhatIsMissingOrOddIsNamed) {
  usual();
  fs::remove(folder() / "fineweb_val_000000.bin");
  EXPECT_THAT(error(), HasSubstr("no shard *_val_*.bin in " + folder().string()));
  usual();
  shard("other.bin", {1});
  EXPECT_THAT(error(), HasSubstr("other.bin: the name does not say train or val"));
  fs::remove(folder() / "other.bin");
  shard("fineweb_train_000003.bin", {kEnd, 50305});
  EXPECT_THAT(error(), HasSubstr("fineweb_train_000003.bin: byte 1026: token 50305"));
  shard("fineweb_train_000003.bin", {kEnd, 1});
  EXPECT_TRUE(open().ok());
  Config small = config();
  small.vocab = 8192;
  EXPECT_THAT(open_dataset(small, {}).error().remedy, HasSubstr("raise vocab"));
  shard("fineweb_val_000000.bin", {kEnd, kEnd});
  EXPECT_THAT(error(), HasSubstr("nothing but token 50256"));
}

TEST_F(ShardFolderTest, ASplitWithoutSeparatorsAsksForTheTokenizer) {
  shard("a_train_0.bin", {1, 2});
  shard("a_val_0.bin", {1, 2});
  EXPECT_THAT(error(), HasSubstr("no token 50256"));
}

TEST_F(ShardFolderTest, OneShardIsNoCorpus) {
  usual();
  Config c = config();
  c.corpus = (folder() / "fineweb_train_000001.bin").string();
  EXPECT_THAT(open_dataset(c, {}).error().remedy, HasSubstr("name its folder"));
}

TEST_F(ShardFolderTest, APlainTableGivesBitsPerByte) {
  usual();
  std::string lengths;
  for (int i = 0; i < 30; ++i) lengths += std::to_string(i % 7 + 1) + "\n";
  file("piece_bytes.txt", lengths);
  const auto dataset = open();
  ASSERT_TRUE(dataset.ok()) << dataset.error().what;
  EXPECT_EQ(dataset->facts.bpb_unknown, "");
  EXPECT_EQ(dataset->facts.piece_bytes.size(), 50304u);
  EXPECT_EQ(dataset->facts.piece_bytes[13], 7);
  EXPECT_EQ(dataset->facts.piece_bytes[kEnd], 0);
  EXPECT_GT(dataset->facts.unigram_bpb, 0);
  // 10 to 14: 4 5 6 7 1; 20 21 20: 7 1 7
  EXPECT_EQ(dataset->facts.bytes, 4 + 5 + 6 + 7 + 1 + 7 + 1 + 7);
  file("piece_bytes.txt", "1 2 x3\n");
  EXPECT_THAT(error(), HasSubstr("piece_bytes.txt: byte 4: 'x3' is no number"));
  file("piece_bytes.txt", "\n");
  EXPECT_THAT(error(), HasSubstr("no pieces"));
}

TEST_F(ShardFolderTest, LlmcsTokenizerGivesBytesAndSeparator) {
  shard("a_train_0.bin", {4, 1, 2});
  shard("a_val_0.bin", {4, 2, 2});
  file("gpt2_tokenizer.bin", llmc_tokenizer({1, 2, 3, 4, 13}, 4));
  Config c = config();
  c.vocab = 320;
  const auto dataset = open_dataset(c, {});
  ASSERT_TRUE(dataset.ok()) << dataset.error().what;
  EXPECT_EQ(dataset->facts.bos, 4);
  EXPECT_THAT(std::vector(dataset->facts.piece_bytes.begin(), dataset->facts.piece_bytes.begin() + 6),
              ElementsAre(1, 2, 3, 4, 0, 0));
  const std::string whole = *read_file(folder() / "gpt2_tokenizer.bin");
  file("gpt2_tokenizer.bin", whole.substr(0, whole.size() - 1));
  EXPECT_THAT(error(), HasSubstr("the file ends in piece 4 of 5"));
  file("gpt2_tokenizer.bin", whole.substr(4));
  EXPECT_THAT(error(), HasSubstr("byte 0: magic 2"));
}

// What this trainer prepares can be named as the corpus, and cut into shards with its tokenizer beside them.
TEST_F(ShardFolderTest, ItsOwnFolderAndItsOwnShardsComeBack) {
  const auto made = open_dataset(corpus_.config(), {});
  ASSERT_TRUE(made.ok()) << made.error().what;
  Config c = corpus_.config();
  c.corpus = made->folder.string();
  const auto same = open_dataset(c, {});
  ASSERT_TRUE(same.ok()) << same.error().what;
  EXPECT_EQ(same->train, made->train);
  shard("words_train_0.bin", made->train);
  shard("words_val_0.bin", made->held_out);
  fs::copy(made->folder / "tokenizer.model", folder() / "tokenizer.model");
  c.corpus = folder().string();
  const auto again = open_dataset(c, {});
  ASSERT_TRUE(again.ok()) << again.error().what;
  EXPECT_EQ(again->facts.bos, kBos);
  EXPECT_EQ(again->train, made->train);
  EXPECT_EQ(again->facts.piece_bytes, made->facts.piece_bytes);
  EXPECT_EQ(again->facts.documents, made->facts.documents);
  EXPECT_DOUBLE_EQ(again->facts.unigram_bpb, made->facts.unigram_bpb);
  EXPECT_EQ(again->facts.bytes, made->facts.bytes);
}

// Without lengths of pieces the loss stands and bits per byte are null, with the reason.
TEST_F(ShardFolderTest, ARunOnThemEvaluatesTheLossAndSaysWhyThereAreNoBitsPerByte) {
  const auto made = open_dataset(corpus_.config(), {});
  ASSERT_TRUE(made.ok());
  const auto renamed = [](std::vector<uint16_t> tokens) {  // BOS as token 319
    for (uint16_t& token : tokens) token = token == kBos ? 319 : token == 319 ? kBos : token;
    return tokens;
  };
  shard("words_train_0.bin", renamed(made->train));
  shard("words_val_0.bin", renamed(made->held_out));
  std::vector<uint8_t> lengths(320, 1);
  Json plan = {{"protocol", 1}, {"mode", "run"}, {"preset", "smoke"}, {"overrides", corpus_.small()}, {"seed", 7},
               {"warmup_steps", 0}, {"steps", 40}, {"skip_eval", false}, {"no_checkpoint", true},
               {"events", (corpus_.folder() / "a").string()}, {"libraries", Json::object()}};
  for (const auto& [seam, library] : test_champions(corpus_.config())) plan["libraries"][seam] = to_json(library);
  plan["overrides"]["corpus"] = folder().string();
  const auto evaluation = [&] {
    EXPECT_TRUE(write_file_atomic(corpus_.folder() / "plan.json", dump_line(plan)).ok());
    const auto outcome = run_plan(corpus_.folder() / "plan.json");
    EXPECT_TRUE(outcome.ok()) << outcome.error().what << outcome.error().remedy;
    Json found;
    std::istringstream lines(*read_file(corpus_.folder() / "a"));
    for (std::string line; std::getline(lines, line);)
      if (const Json event = *parse_json(line, "a"); event["event"] == "eval") found = event;
    return found;
  };
  file("gpt2_tokenizer.bin", llmc_tokenizer(lengths, 319));
  const Json known = evaluation();
  EXPECT_GT(known["val_bpb"].get<double>(), 0);
  EXPECT_FALSE(known.contains("bpb_unknown"));
  // Without a table the separator is GPT-2's, which this small vocabulary lacks: one in a larger one.
  fs::remove(folder() / "gpt2_tokenizer.bin");
  plan["overrides"]["vocab"] = 50304;
  const auto as_gpt2 = [](std::vector<uint16_t> tokens) {
    for (uint16_t& token : tokens) token = token == kBos ? kEnd : token;
    return tokens;
  };
  shard("words_train_0.bin", as_gpt2(made->train));
  shard("words_val_0.bin", as_gpt2(made->held_out));
  plan["steps"] = 1;
  const Json unknown = evaluation();
  EXPECT_TRUE(unknown["val_bpb"].is_null());
  EXPECT_TRUE(unknown["unigram_bpb"].is_null());
  EXPECT_THAT(unknown["bpb_unknown"].get<std::string>(), HasSubstr("beside the shards"));
  EXPECT_NEAR(unknown["val_loss"].get<double>(), std::log(50304), 0.5);
}

}  // namespace
}  // namespace kl::trainer
