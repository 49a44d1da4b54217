#include <trainer/shard.hpp>

#include <lab/core/files.hpp>

#include <array>
#include <cstring>

namespace kl::trainer {
namespace {

constexpr int32_t kMagic = 20240520, kVersion = 1;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

}  // namespace

Outcome write_shard(const fs::path& path, std::span<const uint16_t> tokens) {
  std::array<int32_t, 256> header{kMagic, kVersion, static_cast<int32_t>(tokens.size())};
  std::string bytes(kHeaderBytes + tokens.size_bytes(), '\0');
  std::memcpy(bytes.data(), header.data(), kHeaderBytes);
  std::memcpy(bytes.data() + kHeaderBytes, tokens.data(), tokens.size_bytes());
  return write_file_atomic(path, bytes);
}

Result<std::vector<uint16_t>> read_shard(const fs::path& path) {
  KL_TRY(const std::string bytes, read_file(path));
  std::array<int32_t, 3> header{};
  if (bytes.size() >= kHeaderBytes) std::memcpy(header.data(), bytes.data(), sizeof(header));
  if (header[0] != kMagic || header[1] != kVersion)
    return make_error(Status::error,
                      path.string() + " is no token shard: magic " + std::to_string(header[0]) +
                          ", version " + std::to_string(header[1]),
                      "a shard starts with 20240520 and version 1");
  const auto count = static_cast<size_t>(header[2] < 0 ? 0 : header[2]);
  if (header[2] < 0 || bytes.size() != kHeaderBytes + count * sizeof(uint16_t))
    return make_error(Status::error,
                      path.string() + " says " + std::to_string(header[2]) + " tokens and has " +
                          std::to_string((bytes.size() - kHeaderBytes) / sizeof(uint16_t)),
                      "it was cut short or changed: make it again");
  std::vector<uint16_t> tokens(count);
  std::memcpy(tokens.data(), bytes.data() + kHeaderBytes, count * sizeof(uint16_t));
  return tokens;
}

}  // namespace kl::trainer
