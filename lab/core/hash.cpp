#include <lab/core/hash.hpp>

#include <lab/core/files.hpp>

#include <openssl/evp.h>

namespace kl {

std::string sha256_hex(std::string_view content) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(content.data(), content.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    throw std::logic_error("libcrypto offers no SHA-256");
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

Result<std::string> sha256_file(const std::filesystem::path& path) {
  KL_TRY(const std::string content, read_file(path));
  return sha256_hex(content);
}

std::string sha256_fields(std::initializer_list<std::string_view> fields) {
  std::string joined;
  for (const auto field : fields) {
    joined += std::to_string(field.size());
    joined += ':';
    joined += field;
  }
  return sha256_hex(joined);
}

}  // namespace kl
