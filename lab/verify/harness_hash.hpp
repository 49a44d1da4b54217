// The hash of the sources that judge: verify, bench, their statistics, the worker and the ABI.
// Computed when the lab is built; evidence made under other sources is stale.
#pragma once

#include <lab/target/target.hpp>

#include <string>
#include <string_view>

namespace kl {

std::string_view harness_hash();
// Identity::harness: the sources above, and the target's spec and oracle.
std::string harness_identity(const Target& target);

}  // namespace kl
