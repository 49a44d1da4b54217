// Where text comes from: documents out of a dictionary, text files, JSON Lines or folders.
#pragma once

#include <lab/core/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kl::trainer {

struct Corpus {
  std::string name;
  std::string hash;                    // of the source files
  std::vector<std::filesystem::path> files;
};

// `source` is "gcide", or a path. A missing corpus is an error with the command that installs it.
Result<Corpus> find_corpus(const std::string& source);

// Every document, in the order of the source; invalid UTF-8 is replaced by U+FFFD.
// One document: a dictionary entry, a text file, or one JSON Lines object's "text".
Result<std::vector<std::string>> read_documents(const Corpus& corpus);

// dictd's index writes offsets and lengths in base 64, most significant digit first.
Result<uint64_t> decode_dictd_number(std::string_view digits);
std::string replace_invalid_utf8(std::string_view text);
// Decides the split and the order; the same document has the same hash everywhere.
uint64_t document_hash(std::string_view text);

}  // namespace kl::trainer
