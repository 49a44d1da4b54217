// The error bound of one element, from the oracle's value and sum of |terms|
// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., ch. 3 and 4.5):
//   |got − y| ≤ u_out·max(|y|, smallest normal) + c·γ·u_acc·max(Σ|terms|, smallest normal)
#pragma once

#include <lab/target/target.hpp>
#include <lab/verify/inputs.hpp>
#include <lab/verify/tensor_data.hpp>

namespace kl {

struct Bound {
  double u_out = 0;            // unit round-off of the output's type
  double factor = 0;           // c·γ·u_acc
  double smallest_normal = 0;  // below it rounding errors no longer shrink with the value

  double operator()(double value, double terms) const;
  // The same with γ = 2√n on random data: what f32 sums, one by one, stay within. No champion, not
  // one that sums in double either, makes an error within it a fault.
  double plain(double value, double terms) const;

 private:
  double scaled(double share, double value, double terms) const;
};

// γ: 6√n on random data; n on structured data, where rounding errors may all point the same way
// (never under 6√n: for short sums the operations around the sum decide).
double gamma_of(int64_t terms, bool random);
// Unit round-off that a maths class may accumulate in: 2^-24 exact-reorder, 2^-16 approximate,
// 2^-8 reduced-precision (bf16). Never finer than that of f32, in an f64 sum of f32 terms too.
double accumulator_roundoff(MathsClass maths, DLDataType output);

Bound make_bound(const Target& target, DLDataType output, int64_t terms, bool random);

// The second bound: an error beyond that of plain sums is at most k times the champion's largest on
// the case, and one ulp of the largest value where that is less. Outputs under 32 elements are left
// to the first bound: the champion's error there is luck of the draw.
double champion_cap(double champion_k, double champion_error, double largest_value,
                    int64_t elements, DLDataType output);

}  // namespace kl
