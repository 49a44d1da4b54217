#include <trainer/shard.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace kl::trainer {
namespace {

constexpr int32_t kMagic = 20240520, kVersion = 1;
constexpr int32_t kMagicOf32Bits = 20240801;  // llm.c's shards of Llama 3 tokens
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

}  // namespace

Outcome write_shard(const fs::path& path, std::span<const uint16_t> tokens) {
  std::array<int32_t, 256> header{kMagic, kVersion, static_cast<int32_t>(tokens.size())};
  std::string bytes(kHeaderBytes + tokens.size_bytes(), '\0');
  std::memcpy(bytes.data(), header.data(), kHeaderBytes);
  std::memcpy(bytes.data() + kHeaderBytes, tokens.data(), tokens.size_bytes());
  return write_file_atomic(path, bytes);
}

Result<std::vector<uint16_t>> read_shard(const fs::path& path, int64_t vocab) {
  KL_TRY(const std::string bytes, read_file(path));
  const auto wrong = [&path](size_t offset, const std::string& what, std::string remedy) {
    return make_error(Status::error, fmt::format("{}: byte {}: {}", path.string(), offset, what), std::move(remedy));
  };
  if (bytes.size() < kHeaderBytes)
    return wrong(bytes.size(), fmt::format("the file ends; a token shard begins with {} bytes of header", kHeaderBytes),
                 "it is no token shard, or was cut short: make it again");
  std::array<int32_t, 3> header{};
  std::memcpy(header.data(), bytes.data(), sizeof(header));
  if (header[0] == kMagicOf32Bits)
    return wrong(0, fmt::format("magic {}: its tokens have 32 bits", header[0]),
                 "the trainer's have 16: make shards with the GPT-2 vocabulary");
  if (header[0] != kMagic)
    return wrong(0, fmt::format("magic {}: no token shard", header[0]),
                 fmt::format("a shard begins with {}; keep other files elsewhere", kMagic));
  if (header[1] != kVersion)
    return wrong(4, fmt::format("version {} of the layout", header[1]),
                 fmt::format("make it in version {}: tokens as uint16 after the header", kVersion));
  if (header[2] <= 0)
    return wrong(8, fmt::format("it says that it holds {} tokens", header[2]), "make it again, with tokens");
  const auto count = static_cast<size_t>(header[2]);
  if (bytes.size() != kHeaderBytes + count * sizeof(uint16_t))
    return wrong(bytes.size(), fmt::format("the file ends; the {} tokens of its header end at byte {}", count,
                                           kHeaderBytes + count * sizeof(uint16_t)),
                 "it was cut short or changed: make it again");
  std::vector<uint16_t> tokens(count);
  std::memcpy(tokens.data(), bytes.data() + kHeaderBytes, count * sizeof(uint16_t));
  const auto beyond = std::find_if(tokens.begin(), tokens.end(), [vocab](uint16_t token) { return token >= vocab; });
  if (beyond != tokens.end())
    return wrong(kHeaderBytes + static_cast<size_t>(beyond - tokens.begin()) * sizeof(uint16_t),
                 fmt::format("token {} is beyond the vocabulary of {}", *beyond, vocab),
                 "raise vocab (50304 holds GPT-2's), or make shards with the smaller vocabulary");
  return tokens;
}

}  // namespace kl::trainer
