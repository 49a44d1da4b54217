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

// exp(x) for x <= 0, right below the smallest normal number too; exp(-inf) = 0.
#if defined(__AVX512F__)
// 2^(x*c) = 2^floor(k) * 2^(sixteenths of k) * (1 + q), k the nearest sixteenth of x*c: the middle
// factor is one of a register's sixteen, so that q needs half the polynomial (relative error 1e-9).
inline Lanes exp_of_negative(Lanes x) {
  const Factor c(kLog2E);
  const Lanes roots = {1.0f,        1.04427378f, 1.09050773f, 1.13878863f, 1.18920712f, 1.24185781f,
                       1.29683955f, 1.35425555f, 1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f,
                       1.68179283f, 1.75625216f, 1.83400809f, 1.91520656f};
  x = at_least(x, lanes(-104));  // beyond which exp vanishes, and f would lose its meaning
  const Lanes shifter = lanes(0x1.8p19f);  // its last bit is a sixteenth
  const Lanes shifted = x * c.high + shifter, k = shifted - shifter;
  const Lanes f = x * c.low + (x * c.high - k);
  Lanes q = lanes(5.5504109e-2f);
  q = q * f + lanes(2.4022651e-1f);
  q = q * f + lanes(6.9314718e-1f);
  const Lanes root = reinterpret_cast<Lanes>(_mm512_maskz_permutexvar_ps(
      0xffff, reinterpret_cast<__m512i>(shifted), reinterpret_cast<__m512>(roots)));
  const Lanes power = root * (q * f) + root;
  return reinterpret_cast<Lanes>(
      _mm512_maskz_scalef_ps(0xffff, reinterpret_cast<__m512>(power), reinterpret_cast<__m512>(k)));
}
#else
// Half the exponent is squared, so that it may vanish.
inline Lanes exp_of_negative(Lanes x) {
  const Factor half_exponent(kLog2E / 2);
  const Power p =
      power_of_two(at_least(x, lanes(static_cast<float>(-252 / kLog2E))), half_exponent);
  const Lanes half = p.scale * p.q + p.scale;
  return half * half;
}
#endif

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
