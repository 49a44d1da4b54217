// How fast the host multiplies matrices at best: the compute yardstick beside the copy ceilings.
#pragma once

#include <lab/engine/ceilings.hpp>

namespace kl {

// fp32 rate and shape of one large square product through the sgemm that kernels borrow, on all
// threads: the median of several after one that warms up. 2n³ operations a product.
DeviceFigures measure_host_gemm(bool quick);
// The same at a size of one's own; `repeats` at least 1.
DeviceFigures measure_host_gemm(int64_t size, int repeats);

}  // namespace kl
