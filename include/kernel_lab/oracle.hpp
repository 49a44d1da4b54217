// Number types and the call interface of oracles. An oracle states the mathematics of a target
// once, as a template over its number type R:
//   R = double    gives the values;
//   R = Tracked   gives, beside each value, the sum of |terms| that entered it, the scale that
//                 multiplies the unit round-off in the error bound (Higham, Accuracy and Stability
//                 of Numerical Algorithms, ch. 3: running error analysis).
// Oracles are compiled by the builder and loaded by the judging process only; a kernel never sees
// this header's types.
#pragma once

#include <kernel_lab/kernel.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kl::oracle {

// A value and the sum of absolute terms behind it. Leaves have terms = |value|.
struct Tracked {
  double value = 0;
  double terms = 0;

  Tracked() = default;
  Tracked(double v) : value(v), terms(std::fabs(v)) {}  // NOLINT: implicit like double
  Tracked(double v, double t) : value(v), terms(t) {}

  Tracked& operator+=(const Tracked& o) { return *this = *this + o; }
  Tracked& operator-=(const Tracked& o) { return *this = *this - o; }
  Tracked& operator*=(const Tracked& o) { return *this = *this * o; }
  Tracked& operator/=(const Tracked& o) { return *this = *this / o; }

  friend Tracked operator+(const Tracked& a, const Tracked& b) {
    return {a.value + b.value, a.terms + b.terms};
  }
  friend Tracked operator-(const Tracked& a, const Tracked& b) {
    return {a.value - b.value, a.terms + b.terms};
  }
  friend Tracked operator-(const Tracked& a) { return {-a.value, a.terms}; }
  friend Tracked operator*(const Tracked& a, const Tracked& b) {
    return {a.value * b.value, a.terms * b.terms};
  }
  friend Tracked operator/(const Tracked& a, const Tracked& b) {
    const double q = a.value / b.value;
    // d(a/b) = da/b - a db/b^2
    return {q, a.terms / std::fabs(b.value) + std::fabs(q) * b.terms / std::fabs(b.value)};
  }
  friend bool operator<(const Tracked& a, const Tracked& b) { return a.value < b.value; }
  friend bool operator>(const Tracked& a, const Tracked& b) { return a.value > b.value; }
};

// a·b to first order, for factors whose terms are far above their values: the product of the errors
// themselves is left out.
inline double times(double a, double b) { return a * b; }
inline Tracked times(const Tracked& a, const Tracked& b) {
  return {a.value * b.value, std::fabs(a.value) * b.terms + a.terms * std::fabs(b.value)};
}

inline double value_of(double x) { return x; }
inline double value_of(const Tracked& x) { return x.value; }
inline double terms_of(double x) { return std::fabs(x); }
inline double terms_of(const Tracked& x) { return x.terms; }

// f(a) with derivative d: the error of a is carried by |d|, and rounding f adds |f|.
inline Tracked lifted(double f, double d, const Tracked& a) {
  return {f, std::fabs(f) + std::fabs(d) * a.terms};
}
inline double sqrt(double a) { return std::sqrt(a); }
inline double exp(double a) { return std::exp(a); }
inline double log(double a) { return std::log(a); }
inline double tanh(double a) { return std::tanh(a); }
inline double rsqrt(double a) { return 1.0 / std::sqrt(a); }
inline Tracked sqrt(const Tracked& a) {
  const double f = std::sqrt(a.value);
  return lifted(f, f > 0 ? 0.5 / f : 0, a);
}
inline Tracked rsqrt(const Tracked& a) {
  const double f = 1.0 / std::sqrt(a.value);
  return lifted(f, 0.5 * f / a.value, a);
}
inline Tracked exp(const Tracked& a) {
  const double f = std::exp(a.value);
  return lifted(f, f, a);
}
inline Tracked log(const Tracked& a) { return lifted(std::log(a.value), 1.0 / a.value, a); }
inline Tracked tanh(const Tracked& a) {
  const double f = std::tanh(a.value);
  return lifted(f, 1.0 - f * f, a);
}

// One tensor of an oracle call, packed row-major. Inputs hold exact values of the candidate's
// inputs (any dtype converts to double without loss); integer inputs are given as doubles.
// For outputs, `values` and `terms` are written by the oracle; on entry of an `accumulate` or
// `inout` output `values` holds what was there before the call.
struct Tensor {
  const char* name;
  int32_t ndim;  // 0: an optional input that is absent
  const int64_t* shape;
  double* values;
  double* terms;  // NULL when only values are wanted
  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= shape[i];
    return ndim == 0 ? 0 : n;
  }
};

struct CallTable {
  int32_t operation;
  int32_t input_count;
  int32_t output_count;
  int32_t scalar_count;
  const Tensor* inputs;
  const Tensor* outputs;
  const double* scalars;
};

// Bytes and operations of the cost model: what an ideal kernel must move and do.
struct Cost {
  double bytes_read;
  double bytes_written;
  double flops;
};

// A call seen through number type R.
template <class R>
class Call {
 public:
  explicit Call(const CallTable& table) : table_(table) {}

  int64_t dim(int input, int axis) const { return table_.inputs[input].shape[axis]; }
  bool has(int input) const { return table_.inputs[input].ndim > 0; }
  R in(int input, int64_t index) const { return R(table_.inputs[input].values[index]); }
  double scalar(int index) const { return table_.scalars[index]; }
  // The value an output had before the call (accumulate and inout).
  R before(int output, int64_t index) const { return R(table_.outputs[output].values[index]); }
  void out(int output, int64_t index, const R& v) const {
    const Tensor& t = table_.outputs[output];
    t.values[index] = value_of(v);
    if (t.terms != nullptr) t.terms[index] = terms_of(v);
  }

 private:
  const CallTable& table_;
};

struct OracleTable {
  uint32_t struct_bytes;
  const char* target;
  // Fills outputs' values, and their terms where not NULL. Returns 0, or a negative number when
  // the operation or shapes are not the target's.
  int (*evaluate)(const CallTable* call);
  int (*cost)(const kl_problem* problem, Cost* cost);
};

}  // namespace kl::oracle

// EVALUATE is a function template `template <class R> int EVALUATE(const kl::oracle::CallTable&,
// kl::oracle::Call<R>)`; COST is `int COST(const kl_problem&, kl::oracle::Cost&)`.
#define KL_EXPORT_ORACLE(TARGET, EVALUATE, COST)                                            \
  namespace {                                                                               \
  /* Parameter names no author would give a function of the oracle's. */                          \
  int kl_oracle_evaluate(const kl::oracle::CallTable* kl_call_)                                   \
  {                                                                                               \
    bool kl_tracked_ = false;                                                                     \
    for (int i = 0; i < kl_call_->output_count; ++i)                                              \
      kl_tracked_ |= kl_call_->outputs[i].terms != nullptr;                                       \
    return kl_tracked_                                                                            \
               ? EVALUATE<kl::oracle::Tracked>(*kl_call_, kl::oracle::Call<kl::oracle::Tracked>(*kl_call_))\
               : EVALUATE<double>(*kl_call_, kl::oracle::Call<double>(*kl_call_));                \
  }                                                                                               \
  int kl_oracle_cost(const kl_problem* kl_problem_, kl::oracle::Cost* kl_cost_)                   \
  {                                                                                               \
    return COST(*kl_problem_, *kl_cost_);                                                         \
  }                                                                                               \
  }                                                                                               \
  extern "C" KL_EXPORT const kl::oracle::OracleTable kl_oracle;                             \
  extern "C" const kl::oracle::OracleTable kl_oracle = {sizeof(kl::oracle::OracleTable),    \
                                                        TARGET, kl_oracle_evaluate,         \
                                                        kl_oracle_cost}
