#include <trainer/corpus.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/json.hpp>

#include <algorithm>
#include <set>
#include <zlib.h>

namespace kl::trainer {
namespace {

constexpr std::string_view kDictionaryFolder = "/usr/share/dictd";

// gzip, or plain bytes: zlib reads both.
Result<std::string> read_gzip(const fs::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr)
    return make_error(Status::error, "cannot open " + path.string(), "check that it is readable");
  std::string text;
  std::string chunk(1 << 20, '\0');
  int got = 0;
  while ((got = gzread(file, chunk.data(), static_cast<unsigned>(chunk.size()))) > 0)
    text.append(chunk, 0, static_cast<size_t>(got));
  const bool whole = got == 0 && gzclose(file) == Z_OK;
  if (!whole)
    return make_error(Status::error, path.string() + " is damaged", "install it again");
  return text;
}

Result<std::vector<std::string>> read_dictionary(const fs::path& dictionary, const fs::path& index) {
  KL_TRY(const std::string text, read_gzip(dictionary));
  KL_TRY(const std::string lines, read_file(index));
  std::set<std::pair<uint64_t, uint64_t>> entries;  // several headwords may share one entry
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string_view line(lines.data() + at, end - at);
    at = end + 1;
    const size_t first = line.find('\t'), second = line.rfind('\t');
    if (first == second || line.starts_with("00-")) continue;  // 00-: notes about the database
    KL_TRY(const uint64_t offset, decode_dictd_number(line.substr(first + 1, second - first - 1)));
    KL_TRY(const uint64_t length, decode_dictd_number(line.substr(second + 1)));
    if (offset + length > text.size())
      return make_error(Status::error, index.string() + " points beyond " + dictionary.string(),
                        "apt-get install --reinstall dict-gcide");
    entries.insert({offset, length});
  }
  std::vector<std::string> documents;
  documents.reserve(entries.size());
  for (const auto& [offset, length] : entries)
    documents.push_back(replace_invalid_utf8(std::string_view(text).substr(offset, length)));
  return documents;
}

Outcome read_json_lines(const fs::path& path, std::vector<std::string>& documents) {
  KL_TRY(const std::string text, read_file(path));
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    KL_TRY(const Json object, parse_json(line, path.string() + ":" + std::to_string(number)));
    if (!object.is_object() || !object.contains("text") || !object["text"].is_string())
      return make_error(Status::usage,
                        path.string() + ":" + std::to_string(number) + " has no string \"text\"",
                        "give one object with \"text\" a line");
    documents.push_back(replace_invalid_utf8(object["text"].get<std::string>()));
  }
  return {};
}

bool is_json_lines(const fs::path& path) {
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

}  // namespace

Result<uint64_t> decode_dictd_number(std::string_view digits) {
  constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint64_t value = 0;
  for (const char digit : digits) {
    const size_t place = alphabet.find(digit);
    if (place == std::string_view::npos || value >> 58 != 0)
      return make_error(Status::error, "'" + std::string(digits) + "' is no dictd number",
                        "install the dictionary again");
    value = value * 64 + place;
  }
  return value;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  const auto continues = [&](size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2
                          : (lead & 0xf0) == 0xe0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
    bool valid = length > 0;
    for (size_t k = 1; k < length; ++k) valid = valid && continues(i + k);
    if (valid && length > 2) {  // overlong forms, surrogates, beyond U+10FFFF
      const auto second = static_cast<unsigned char>(text[i + 1]);
      valid = !(lead == 0xe0 && second < 0xa0) && !(lead == 0xed && second >= 0xa0) &&
              !(lead == 0xf0 && second < 0x90) && !(lead == 0xf4 && second >= 0x90);
    }
    if (valid)
      result.append(text.substr(i, length));
    else
      result.append("\xef\xbf\xbd");
    i += valid ? length : 1;
  }
  return result;
}

uint64_t document_hash(std::string_view text) {
  return std::stoull(sha256_hex(text).substr(0, 16), nullptr, 16);
}

Result<Corpus> find_corpus(const std::string& source) {
  Corpus corpus;
  std::error_code code;
  if (source == "gcide") {
    corpus.name = "gcide";
    corpus.files = {fs::path(kDictionaryFolder) / "gcide.dict.dz",
                    fs::path(kDictionaryFolder) / "gcide.index"};
    for (const auto& file : corpus.files)
      if (!fs::is_regular_file(file, code))
        return make_error(Status::missing_runtime,
                          "the default corpus is not installed: no " + file.string(),
                          "apt-get install dict-gcide, or name your own text: --set corpus=PATH");
  } else if (fs::is_directory(source, code)) {
    corpus.name = fs::path(source).filename().string();
    for (const auto& entry : fs::recursive_directory_iterator(source, code))
      if (entry.is_regular_file(code) && !entry.path().filename().string().starts_with("."))
        corpus.files.push_back(entry.path());
    std::sort(corpus.files.begin(), corpus.files.end());
    if (corpus.files.empty())
      return make_error(Status::usage, "no files in the corpus folder " + source,
                        "put text or JSON Lines files there");
  } else if (fs::path(source).extension() == ".bin") {
    return make_error(Status::usage, source + " is one shard of tokens, not a corpus",
                      "name its folder, with *_train_*.bin and *_val_*.bin in it");
  } else if (fs::is_regular_file(source, code)) {
    corpus.name = fs::path(source).filename().string();
    corpus.files = {source};
  } else {
    return make_error(Status::usage, "no corpus at '" + source + "'",
                      "give gcide, a text file, a .jsonl file, or a folder of these or of token shards");
  }
  std::string hashes;
  for (const auto& file : corpus.files) {
    KL_TRY(const std::string hash, sha256_file(file));
    hashes += hash;
  }
  corpus.hash = sha256_hex(hashes);
  return corpus;
}

Result<std::vector<std::string>> read_documents(const Corpus& corpus) {
  if (corpus.name == "gcide" && corpus.files.size() == 2)
    return read_dictionary(corpus.files[0], corpus.files[1]);
  std::vector<std::string> documents;
  for (const auto& file : corpus.files) {
    if (is_json_lines(file)) {
      KL_CHECK(read_json_lines(file, documents));
    } else {
      KL_TRY(const std::string text, read_file(file));
      documents.push_back(replace_invalid_utf8(text));
    }
  }
  return documents;
}

}  // namespace kl::trainer
