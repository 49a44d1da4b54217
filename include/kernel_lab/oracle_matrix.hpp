// Matrix products for oracles, over any number type.
#pragma once

#include <kernel_lab/oracle.hpp>

#include <vector>

namespace kl::oracle {

template <class R>
struct Matrix {
  int64_t rows, columns;
  std::vector<R> values;
  Matrix(int64_t m, int64_t n) : rows(m), columns(n), values(static_cast<size_t>(m * n)) {}
  R* row(int64_t i) { return values.data() + i * columns; }
  const R* row(int64_t i) const { return values.data() + i * columns; }
};

// An input seen as [rows, columns], whatever its axes; by its own two where they are not given.
template <class R>
Matrix<R> input(const Call<R>& call, int index, int64_t rows, int64_t columns) {
  Matrix<R> m(rows, columns);
  for (size_t i = 0; i < m.values.size(); ++i)
    m.values[i] = call.in(index, static_cast<int64_t>(i));
  return m;
}
template <class R>
Matrix<R> input(const Call<R>& call, int index) {
  return input(call, index, call.dim(index, 0), call.dim(index, 1));
}

template <class R>
Matrix<R> transposed(const Matrix<R>& a) {
  Matrix<R> t(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) t.row(j)[i] = a.row(i)[j];
  return t;
}

// c += a b, row by row of b.
template <class R>
void multiply(const Matrix<R>& a, const Matrix<R>& b, Matrix<R>& c) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.columns; ++k) {
      const R factor = a.row(i)[k];
      const R* from = b.row(k);
      R* to = c.row(i);
      for (int64_t j = 0; j < b.columns; ++j) to[j] += factor * from[j];
    }
}
template <class R>
Matrix<R> times(const Matrix<R>& a, const Matrix<R>& b) {
  Matrix<R> c(a.rows, b.columns);
  multiply(a, b, c);
  return c;
}

template <class R>
void write(const Call<R>& call, int output, const Matrix<R>& m) {
  for (size_t i = 0; i < m.values.size(); ++i)
    call.out(output, static_cast<int64_t>(i), m.values[i]);
}
// The output += a b.
template <class R>
void accumulate(const Call<R>& call, int output, const Matrix<R>& a, const Matrix<R>& b) {
  Matrix<R> sum(a.rows, b.columns);
  for (size_t i = 0; i < sum.values.size(); ++i)
    sum.values[i] = call.before(output, static_cast<int64_t>(i));
  multiply(a, b, sum);
  write(call, output, sum);
}

}  // namespace kl::oracle
