#include <trainer/dataset.hpp>
#include <trainer/shard.hpp>
#include <trainer/test_corpus.hpp>
#include <trainer/tokenizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace kl::trainer {
namespace {

using testing::HasSubstr;

TEST(Corpus, ReadsDictdNumbersMostSignificantDigitFirst) {
  EXPECT_EQ(*decode_dictd_number("A"), 0u);
  EXPECT_EQ(*decode_dictd_number("Kj"), 10u * 64 + 35);
  EXPECT_EQ(*decode_dictd_number("+/"), 62u * 64 + 63);
  EXPECT_FALSE(decode_dictd_number("K!").ok());
}

TEST(Corpus, ReplacesOnlyInvalidUtf8) {
  EXPECT_EQ(replace_invalid_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(replace_invalid_utf8("a\xff z"), "a\xef\xbf\xbd z");
  EXPECT_EQ(replace_invalid_utf8("\xc3"), "\xef\xbf\xbd");              // cut short
  EXPECT_EQ(replace_invalid_utf8("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");  // overlong
}

TEST(Corpus, AMissingOneNamesTheRemedy) {
  const auto missing = find_corpus("/nowhere/books");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().what, HasSubstr("/nowhere/books"));
  EXPECT_THAT(missing.error().remedy, HasSubstr("folder"));
}

TEST(Corpus, JsonLinesWithoutTextNameTheLine) {
  const TestCorpus corpus;
  ASSERT_TRUE(write_file_atomic(corpus.file(), "{\"text\":\"a\"}\n{\"txt\":\"b\"}\n").ok());
  const auto documents = read_documents(*find_corpus(corpus.file().string()));
  ASSERT_FALSE(documents.ok());
  EXPECT_THAT(documents.error().what, HasSubstr(":2 has no string \"text\""));
}

TEST(Shard, RoundTripsInTheSharedLayout) {
  const auto folder = TemporaryFolder::create("shard");
  const fs::path path = folder->path() / "a.bin";
  const std::vector<uint16_t> tokens = {1, 500, 65535, 0};
  ASSERT_TRUE(write_shard(path, tokens).ok());
  EXPECT_EQ(*read_shard(path), tokens);
  const std::string bytes = *read_file(path);
  ASSERT_EQ(bytes.size(), 256u * 4 + 8);
  int32_t header[3];
  std::memcpy(header, bytes.data(), sizeof(header));
  EXPECT_EQ(header[0], 20240520);
  EXPECT_EQ(header[1], 1);
  EXPECT_EQ(header[2], 4);
  EXPECT_EQ(bytes[1024 + 2], '\xf4');  // 500 = 0x01f4, little-endian
  EXPECT_EQ(bytes[1024 + 3], '\x01');
}

// Every way in which a file can be wrong, with the byte at which it is.
TEST(Shard, ACutOrForeignFileIsAnErrorWithFileAndOffset) {
  const auto folder = TemporaryFolder::create("shard");
  const fs::path path = folder->path() / "a.bin";
  ASSERT_TRUE(write_shard(path, std::vector<uint16_t>{1, 2, 3}).ok());
  const std::string whole = *read_file(path);
  const auto error = [&path](const std::string& bytes, int64_t vocab = 65536) {
    EXPECT_TRUE(write_file_atomic(path, bytes).ok());
    const auto shard = read_shard(path, vocab);
    EXPECT_FALSE(shard.ok());
    return shard.ok() ? "" : shard.error().what + "; " + shard.error().remedy;
  };
  const auto with_word = [&whole](size_t index, int32_t value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + index * 4, &value, 4);
    return bytes;
  };
  const std::string at = path.string() + ": byte ";
  EXPECT_THAT(error(whole.substr(0, whole.size() - 2)), HasSubstr(at + "1028: the file ends; the 3 tokens"));
  EXPECT_THAT(error(whole + "zz"), HasSubstr("the 3 tokens of its header end at byte 1030"));
  EXPECT_THAT(error(""), HasSubstr(at + "0: the file ends"));
  EXPECT_THAT(error(whole.substr(0, 1000)), HasSubstr(at + "1000: the file ends"));
  EXPECT_THAT(error(with_word(0, 20240522)), HasSubstr(at + "0: magic 20240522: no token shard"));
  EXPECT_THAT(error(with_word(0, 20240801)), HasSubstr("32 bits"));
  EXPECT_THAT(error(with_word(1, 2)), HasSubstr(at + "4: version 2"));
  EXPECT_THAT(error(with_word(2, 0)), HasSubstr(at + "8: it says that it holds 0 tokens"));
  EXPECT_THAT(error(with_word(2, -5)), HasSubstr("-5 tokens"));
  EXPECT_THAT(error(whole, 3), HasSubstr(at + "1028: token 3 is beyond the vocabulary of 3"));
  ASSERT_TRUE(write_file_atomic(path, whole).ok());
  EXPECT_TRUE(read_shard(path, 4).ok());
}

TEST(Split, IsFixedByTheDocumentAlone) {
  // Fixed for ever: another answer would move documents between training and evaluation.
  EXPECT_EQ(document_hash("aardvark"), 0xcf9c1cb89584bf8cu);
  int held = 0;
  for (uint64_t i = 0; i < 10000; ++i) held += is_held_out(document_hash(TestCorpus::sentence(i)), 5);
  EXPECT_NEAR(held, 500, 100);
  for (uint64_t hash = 0; hash < 1000; ++hash)  // more held out keeps what was held out
    EXPECT_LE(is_held_out(hash, 1), is_held_out(hash, 2));
}

TEST(Unigram, TwoEquallyFrequentBytesCostOneBitEach) {
  const std::vector<int32_t> bytes = {0, 0, 1, 1, 4};
  EXPECT_DOUBLE_EQ(unigram_bits_per_byte(std::vector<uint16_t>{1, 2, 3, 1, 3, 2}, bytes), 1);
  EXPECT_DOUBLE_EQ(unigram_bits_per_byte(std::vector<uint16_t>{4, 4, 4}, bytes), 0);
  // p = 1/4, 3/4: 0.8113 bits a token, 13 bytes over 4 tokens
  EXPECT_NEAR(unigram_bits_per_byte(std::vector<uint16_t>{2, 4, 4, 4}, bytes), 4 * 0.811278 / 13, 1e-6);
}

TEST(Dataset, PieceBytesAddUpToTheTextsBytes) {
  const TestCorpus corpus;
  const auto dataset = open_dataset(corpus.config(), {});
  ASSERT_TRUE(dataset.ok()) << dataset.error().what;
  const auto tokenizer = Tokenizer::load(dataset->folder / "tokenizer.model");
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer->vocab(), 320);
  for (const std::string text : {"kalo mi  ter\n\ncaf\xc3\xa9", "\xe2\x82\xac\xf0\x9f\x98\x80 never seen", " x "}) {
    int64_t bytes = 0;
    const auto ids = tokenizer->encode(text);
    ASSERT_TRUE(ids.ok());
    for (const int id : *ids) bytes += dataset->facts.piece_bytes[static_cast<size_t>(id)];
    EXPECT_EQ(bytes, static_cast<int64_t>(text.size())) << text;
  }
}

TEST(Dataset, SplitsWithoutLosingADocument) {
  const TestCorpus corpus;
  const auto dataset = open_dataset(corpus.config(), {});
  ASSERT_TRUE(dataset.ok()) << dataset.error().what;
  EXPECT_EQ(dataset->facts.documents, 400);
  EXPECT_NEAR(static_cast<double>(dataset->facts.held_out_documents), 40, 20);
  const auto starts = [](const std::vector<uint16_t>& tokens) {
    return std::count(tokens.begin(), tokens.end(), kBos);
  };
  EXPECT_EQ(starts(dataset->held_out), dataset->facts.held_out_documents);
  EXPECT_EQ(starts(dataset->train), 400 - dataset->facts.held_out_documents);
}

TEST(Dataset, PreparedTwiceAtOnceBothSucceedAndAgree) {
  const TestCorpus corpus;
  std::vector<uint16_t> tokens[2];
  std::vector<std::thread> both;
  for (auto& result : tokens)
    both.emplace_back([&corpus, &result] {
      auto dataset = open_dataset(corpus.config(), {});
      if (dataset.ok()) result = std::move(dataset->train);
    });
  for (auto& thread : both) thread.join();
  EXPECT_FALSE(tokens[0].empty());
  EXPECT_EQ(tokens[0], tokens[1]);
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(corpus.folder() / "cache" / "corpora")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".making")) << entry.path();
    ++folders;
  }
  EXPECT_EQ(folders, 1);
}

TEST(Dataset, AFolderMadeElsewhereNeedsNoCorpus) {
  const TestCorpus corpus;
  const auto made = open_dataset(corpus.config(), {});
  ASSERT_TRUE(made.ok()) << made.error().what;
  const fs::path elsewhere = corpus.folder() / "elsewhere";
  fs::copy(made->folder, elsewhere);
  Config config = corpus.config();
  config.corpus = "/nowhere/books";
  setenv("KERNEL_LAB_DATA", elsewhere.c_str(), 1);
  const auto found = open_dataset(config, {});
  setenv("KERNEL_LAB_DATA", corpus.folder().c_str(), 1);
  const auto missing = open_dataset(config, {});
  unsetenv("KERNEL_LAB_DATA");
  ASSERT_TRUE(found.ok()) << found.error().what;
  EXPECT_EQ(found->train, made->train);
  EXPECT_EQ(found->facts.corpus_hash, made->facts.corpus_hash);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().what, HasSubstr("no dataset.json"));
  EXPECT_FALSE(open_dataset(config, {}).ok()) << "the corpus itself is not there";
}

TEST(Dataset, ACorpusOfOneDocumentSaysWhatIsMissing) {
  const TestCorpus corpus;
  Config config = corpus.config();
  config.corpus = (corpus.folder() / "one.txt").string();
  std::string text;
  for (uint64_t i = 0; i < 100; ++i) text += TestCorpus::sentence(i) + "\n";
  ASSERT_TRUE(write_file_atomic(config.corpus, text).ok());
  config.held_out_percent = 0.001;
  const auto dataset = open_dataset(config, {});
  ASSERT_FALSE(dataset.ok());
  EXPECT_THAT(dataset.error().what, HasSubstr("none of them held out"));
}

// Three documents of 2, 3 and 30 tokens, rows of 8.
TEST(RowPacker, RowsStartWithBosAndCarryEveryTokenOnce) {
  std::vector<uint16_t> tokens;
  uint16_t next = 10;
  for (const int length : {2, 3, 30}) {
    tokens.push_back(kBos);
    for (int i = 0; i < length; ++i) tokens.push_back(next++);
  }
  RowPacker packer(tokens, kBos, 7, 5, true);
  std::map<int32_t, int> seen;
  std::vector<int32_t> inputs(7), targets(7);
  for (int row = 0; row < 3000; ++row) {
    packer.next(inputs.data(), targets.data());
    EXPECT_EQ(inputs[0], kBos);
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(inputs[i + 1], targets[i]);
    for (const int32_t token : targets) ++seen[token];
  }
  int least = INT32_MAX, most = 0;
  for (const auto& [token, count] : seen) {
    if (token == kBos) continue;
    least = std::min(least, count);
    most = std::max(most, count);
  }
  EXPECT_EQ(seen.size(), 36u);  // 35 tokens and BOS
  // As often as every other, but for the 256 pieces that wait.
  EXPECT_GT(least, 300);
  EXPECT_LE(most - least, 256);
}

// Rows of 8 hold one document of 5 and the start of another, whose rest must come later.
TEST(RowPacker, TheRestOfACutDocumentIsNotLost) {
  const std::vector<uint16_t> tokens = {kBos, 10, 11, 12, 13, 14};
  RowPacker packer(tokens, kBos, 7, 5, true);
  std::map<int32_t, int> seen;
  std::vector<int32_t> inputs(7), targets(7);
  for (int row = 0; row < 3000; ++row) {
    packer.next(inputs.data(), targets.data());
    for (const int32_t token : targets) ++seen[token];
  }
  for (int32_t token = 11; token <= 14; ++token) EXPECT_NEAR(seen[10], seen[token], 260) << token;
}

TEST(RowPacker, TheSeedFixesTheOrder) {
  const TestCorpus corpus;
  const auto dataset = open_dataset(corpus.config(), {});
  ASSERT_TRUE(dataset.ok());
  std::vector<int32_t> a(24), b(24), c(24), unused(24);
  RowPacker(dataset->train, kBos, 24, 1, true).next(a.data(), unused.data());
  RowPacker(dataset->train, kBos, 24, 1, true).next(b.data(), unused.data());
  RowPacker(dataset->train, kBos, 24, 2, true).next(c.data(), unused.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

}  // namespace
}  // namespace kl::trainer
