// Rates of matrix products through cuBLASLt, loaded at run time.
#pragma once

#include <engines/cuda/gate.hpp>

#include <lab/engine/ceilings.hpp>

namespace kl::cuda {

// Fills the rates that could be measured; `gemm_unknown` says why the others are null.
void measure_matrix_rates(Context& context, Stopwatch& stopwatch, CUstream stream, bool quick,
                          DeviceFigures& figures);

}  // namespace kl::cuda
