// The size of the last-level cache this process can fill.
#pragma once

#include <cstdint>

namespace kl {

// As the kernel describes it; 32 MiB when it does not. In a virtual machine cpuid, and so sysconf,
// may describe the whole host instead.
int64_t last_level_cache_bytes();

}  // namespace kl
