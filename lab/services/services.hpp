// What a host lends to the kernels it runs (kl_services, kernel.h).
#pragma once

#include <kernel_lab/kernel.h>

#include <span>
#include <string>

namespace kl {

// Those that a spec lists; any other answers KL_UNSUPPORTED. `sgemm` is OpenBLAS: called outside a
// parallel region it uses the host's threads, inside one the calling thread alone, and there
// several threads may call it at once.
const kl_services& services(std::span<const std::string> listed);

// Maps the buffers that products on this many threads need, so that no call of a kernel is the
// first to: OpenBLAS places them by mbind, which a confined process may not.
void make_services_ready(int threads);

}  // namespace kl
