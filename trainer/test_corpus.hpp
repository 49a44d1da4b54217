// A small corpus for tests: sentences of invented words, in a folder of its own with its own cache.
#pragma once

#include <lab/core/files.hpp>
#include <lab/core/json.hpp>
#include <trainer/config.hpp>
#include <trainer/random.hpp>

#include <cstdlib>

namespace kl::trainer {

class TestCorpus {
 public:
  TestCorpus() : folder_(std::move(*TemporaryFolder::create("trainer-test"))) {
    setenv("KERNEL_LAB_CACHE", (folder_.path() / "cache").c_str(), 1);
    std::string lines;
    for (uint64_t i = 0; i < 400; ++i) lines += dump_line({{"text", sentence(i)}}) + "\n";
    static_cast<void>(write_file_atomic(file(), lines).ok());
  }
  ~TestCorpus() { unsetenv("KERNEL_LAB_CACHE"); }
  std::filesystem::path folder() const { return folder_.path(); }
  std::filesystem::path file() const { return folder_.path() / "corpus.jsonl"; }

  static std::string sentence(uint64_t seed) {
    static const char* const syllables[] = {"ka", "lo", "mi", "ter", "un", "da", "sho", "ri"};
    std::string text;
    for (uint64_t word = 0; word < 5 + mix64(seed) % 40; ++word) {
      const uint64_t draw = mix64(seed * 1000 + word) % 64;
      text += (word == 0 ? "" : word % 9 == 0 ? "\n" : " ");
      text += std::string(syllables[draw % 8]) + syllables[draw / 8];
    }
    return text + " caf\xc3\xa9.";
  }
  // Fields of a model that steps in a millisecond.
  Json small() const {
    return {{"corpus", file().string()}, {"vocab", 320},    {"sequence", 24}, {"layers", 2},
            {"width", 32},               {"head_dim", 16},  {"rows", 2},      {"accumulation", 1},
            {"held_out_percent", 10},    {"threads", 1},    {"eval_tokens", 200},
            {"tokenizer_bytes", 100000}, {"corpus_bytes", 0}};
  }
  Config config() const {
    Config c;
    static_cast<void>(apply_overrides(c, small()).ok());
    return c;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace kl::trainer
