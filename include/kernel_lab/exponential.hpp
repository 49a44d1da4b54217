// Exponentials of vectors for kernel authors, in plain arithmetic: right to about a unit in the
// last place, without calls and without branches.
#pragma once

#include <kernel_lab/lanes.hpp>

namespace kl {

inline constexpr double kLog2E = 1.4426950408889634;

// A constant as the sum of two floats: its rounding alone would shift every power of a row.
struct Factor {
  Lanes high, low;
  explicit Factor(double c)
      : high(lanes(static_cast<float>(c))),
        low(lanes(static_cast<float>(c - static_cast<float>(c)))) {}
};

// 2^(x*c) = scale * (1 + q): scale = 2^k with k the nearest integer of x*c, and q = 2^(x*c-k) - 1
// by a minimax polynomial without constant term (relative error 1.1e-8). -126 <= x*c <= 127.
struct Power {
  Lanes scale, q;
};
inline Power power_of_two(Lanes x, const Factor& c) {
  const Lanes shifter = lanes(12582912.0f + 127.0f);  // 1.5 * 2^23 + the exponent's bias
  const Lanes shifted = x * c.high + shifter;
  const Lanes f = x * c.low + (x * c.high - (shifted - shifter));
  Lanes q = lanes(1.54035126e-4f);
  q = q * f + lanes(1.33909643e-3f);
  q = q * f + lanes(9.61823836e-3f);
  q = q * f + lanes(5.55035696e-2f);
  q = q * f + lanes(2.40226492e-1f);
  q = q * f + lanes(6.93147182e-1f);
  return {reinterpret_cast<Lanes>(reinterpret_cast<BitLanes>(shifted) << 23), q * f};
}

// exp(x) for x <= 0: half the exponent is squared, so that it may vanish.
inline Lanes exp_of_negative(Lanes x) {
  const Factor half_exponent(kLog2E / 2);
  const Power p =
      power_of_two(at_least(x, lanes(static_cast<float>(-252 / kLog2E))), half_exponent);
  const Lanes half = p.scale * p.q + p.scale;
  return half * half;
}

// The softcap z' = s*tanh(z/s), with its constants folded into those of the exponentials.
class Softcap {
 public:
  explicit Softcap(double s)
      : to_tanh_(2 * kLog2E / s),
        to_exp_(s * kLog2E),
        to_half_exp_(s * kLog2E / 2),
        largest_(lanes(static_cast<float>(15 * s / kLog2E))),
        smallest_(lanes(static_cast<float>(-252 / (s * kLog2E)))) {}

  // t = tanh(u) = e/(e + 2) with u = z/s and e = exp(2u) - 1, accurate near 0 too.
  Lanes tanh(Lanes z) const {
    const Power p = power_of_two(at_most(at_least(z, -largest_), largest_), to_tanh_);
    const Lanes e = p.scale * p.q + (p.scale - lanes(1.0f));
    return e / (e + lanes(2.0f));
  }
  // exp(s*t - s*shift). Unshifted (s <= 40) the power is in range as it is; shifted it may vanish,
  // so half the exponent is squared.
  template <bool shifted>
  Lanes exp(Lanes t, Lanes shift) const {
    if constexpr (!shifted) {
      const Power p = power_of_two(t, to_exp_);
      return p.scale * p.q + p.scale;
    }
    const Power p = power_of_two(at_least(t - shift, smallest_), to_half_exp_);
    const Lanes half = p.scale * p.q + p.scale;
    return half * half;
  }

 private:
  Factor to_tanh_;  // 2*log2(e)/s
  Factor to_exp_;   // s*log2(e)
  Factor to_half_exp_;
  Lanes largest_;   // where tanh is 1
  Lanes smallest_;  // where half the exponent vanishes
};

}  // namespace kl
