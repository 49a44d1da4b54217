// What this machine can do at best with a footprint and a mix of reads and writes.
#pragma once

#include <cstdint>

namespace kl::target_bench {

// out[i] = sum of the read arrays (or only their sum, when out is NULL), on `threads` threads.
// `streamed`: stores past the caches. `reads` is 1 or 2; arrays are 64-byte aligned.
void move_bytes(const float* first, const float* second, float* out, int64_t elements, bool streamed,
                int threads);

// Elements per second of exp(s * tanh(x / s)) over data in the first cache, all threads together.
struct TanhExpRate {
  double vector_library;  // expf and tanhf of the vector maths library
  double polynomial;      // polynomials that the compiler vectorises
};
TanhExpRate tanh_exp_rate(int threads);

// Elements per second of exp(x - m), summed, over data in the first cache, all threads together.
double exp_rate(int threads);

}  // namespace kl::target_bench
