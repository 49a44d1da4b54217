#include <trainer/piece_table.hpp>

#include <lab/core/files.hpp>
#include <trainer/tokenizer.hpp>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>

namespace kl::trainer {
namespace {

Error wrong(const fs::path& file, size_t offset, const std::string& what, std::string remedy) {
  return make_error(Status::error, fmt::format("{}: byte {}: {}", file.string(), offset, what), std::move(remedy));
}

Result<PieceTable> read_sentencepiece(const fs::path& file) {
  KL_TRY(const Tokenizer tokenizer, Tokenizer::load(file));
  PieceTable table;
  table.bos = tokenizer.bos();
  table.bytes = tokenizer.piece_bytes();
  if (table.bos < 0)
    return make_error(Status::error, file.string() + " has no BOS piece",
                      "documents begin with one: give the model that the shards were made with");
  return table;
}

// 256 uint32 (magic 20240328, version 1 or 2, number of pieces, in version 2 the end of text), then for each
// piece its length in one byte and its bytes.
Result<PieceTable> read_llmc_tokenizer(const fs::path& file) {
  constexpr uint32_t kMagic = 20240328;
  constexpr size_t kHeaderBytes = 256 * sizeof(uint32_t);
  const std::string remedy = "give the gpt2_tokenizer.bin of llm.c's starter pack";
  KL_TRY(const std::string content, read_file(file));
  if (content.size() < kHeaderBytes) return wrong(file, content.size(), "the header ends here", remedy);
  std::array<uint32_t, 4> header{};
  std::memcpy(header.data(), content.data(), sizeof(header));
  if (header[0] != kMagic) return wrong(file, 0, fmt::format("magic {}, not {}", header[0], kMagic), remedy);
  if (header[1] != 1 && header[1] != 2) return wrong(file, 4, fmt::format("version {}", header[1]), remedy);
  PieceTable table;
  if (header[1] == 2) table.bos = static_cast<int32_t>(header[3]);
  size_t at = kHeaderBytes;
  for (uint32_t piece = 0; piece < header[2]; ++piece) {
    const size_t length = at < content.size() ? static_cast<unsigned char>(content[at]) : 0;
    if (at + 1 + length > content.size())
      return wrong(file, content.size(), fmt::format("the file ends in piece {} of {}", piece, header[2]), remedy);
    table.bytes.push_back(static_cast<int32_t>(length));
    at += 1 + length;
  }
  return table;
}

Result<PieceTable> read_plain(const fs::path& file) {
  KL_TRY(const std::string text, read_file(file));
  PieceTable table;
  constexpr std::string_view space = " \t\r\n";
  for (size_t at = text.find_first_not_of(space); at != std::string::npos; at = text.find_first_not_of(space, at)) {
    const size_t end = std::min(text.find_first_of(space, at), text.size());
    int32_t bytes = -1;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, bytes);
    if (error != std::errc() || stop != text.data() + end || bytes < 0)
      return wrong(file, at, fmt::format("'{}' is no number of bytes", text.substr(at, end - at)),
                   "give one number a token, in their order; 0 for tokens that stand for no text");
    table.bytes.push_back(bytes);
    at = end;
  }
  return table;
}

}  // namespace

Result<PieceTable> find_piece_table(const fs::path& folder) {
  constexpr std::pair<const char*, Result<PieceTable> (*)(const fs::path&)> kinds[] = {
      {"tokenizer.model", read_sentencepiece},
      {"gpt2_tokenizer.bin", read_llmc_tokenizer},
      {"piece_bytes.txt", read_plain}};
  for (const auto& [name, read] : kinds) {
    const fs::path file = folder / name;
    std::error_code code;
    if (!fs::exists(file, code)) continue;
    KL_TRY(PieceTable table, read(file));
    if (table.bytes.empty())
      return wrong(file, 0, "no pieces", "remove it: val_bpb is then unknown, and val_loss stands");
    if (static_cast<size_t>(table.bos) < table.bytes.size()) table.bytes[static_cast<size_t>(table.bos)] = 0;
    table.file = file;
    return table;
  }
  return PieceTable{};
}

}  // namespace kl::trainer
