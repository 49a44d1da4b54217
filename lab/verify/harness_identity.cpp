#include <lab/core/hash.hpp>
#include <lab/verify/harness_hash.hpp>

namespace kl {

std::string harness_identity(const Target& target) {
  return sha256_fields({harness_hash(), target.spec_hash});
}

}  // namespace kl
