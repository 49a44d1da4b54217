// Lookup of value embeddings in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <algorithm>
#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::value_of;

template <class R>
void forward(const Call<R>& call, int64_t tokens, int64_t width) {
  for (int64_t n = 0; n < tokens; ++n) {
    const auto token = static_cast<int64_t>(value_of(call.in(0, n)));
    for (int64_t c = 0; c < width; ++c) call.out(0, n * width + c, call.in(1, token * width + c));
  }
}

template <class R>
void backward(const Call<R>& call, int64_t tokens, int64_t width, int64_t size) {
  std::vector<R> table;
  for (int64_t i = 0; i < size; ++i) table.push_back(call.before(0, i));
  for (int64_t n = 0; n < tokens; ++n) {
    const auto token = static_cast<int64_t>(value_of(call.in(1, n)));
    for (int64_t c = 0; c < width; ++c)
      table[static_cast<size_t>(token * width + c)] += call.in(0, n * width + c);
  }
  for (int64_t i = 0; i < size; ++i) call.out(0, i, table[static_cast<size_t>(i)]);
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.input_count != 2 || table.output_count != 1) return -1;
  if (table.operation == KL_FORWARD) {
    if (table.inputs[1].ndim != 3) return -1;
    forward(call, table.inputs[0].size(), call.dim(1, 1) * call.dim(1, 2));
    return 0;
  }
  if (table.operation != KL_BACKWARD || table.inputs[0].ndim != 4) return -1;
  backward(call, table.inputs[1].size(), call.dim(0, 2) * call.dim(0, 3), table.outputs[0].size());
  return 0;
}

// Of the table, the rows that are looked up: at most one a token, each fetched once. Backward reads
// and writes as many.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& heads = is_forward ? problem.outputs[0] : problem.inputs[0];
  const DLTensor& table = is_forward ? problem.inputs[1] : problem.outputs[0];
  if (heads.ndim != 4 || table.ndim != 3) return -1;
  const auto tokens = static_cast<double>(heads.shape[0]) * static_cast<double>(heads.shape[1]);
  const auto width = static_cast<double>(heads.shape[2]) * static_cast<double>(heads.shape[3]);
  const double row = width * heads.dtype.bits / 8.0, table_row = width * table.dtype.bits / 8.0;
  const double rows = std::min(tokens, static_cast<double>(table.shape[0]));
  if (is_forward)
    cost = {tokens * 4 + rows * table_row, tokens * row, 0};
  else
    cost = {tokens * (row + 4) + rows * table_row, rows * table_row, tokens * width};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("ve_lookup_reshape", evaluate, ideal_cost);
