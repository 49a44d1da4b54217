// Champions and references of the targets against what this machine can move and compute: a copy of
// the same footprint, or sgemm's rate where the target may borrow sgemm.
// Every round runs champion, ceiling and reference in turn, so that all of them find the caches in
// the same state and share the machine's moods; the fastest decile of each is printed.
//   kl_bench_targets [rounds [threads [target]]]
#include "ceilings.hpp"

#include <lab/build/builder.hpp>
#include <lab/build/loader.hpp>
#include <lab/core/clock.hpp>
#include <lab/core/fingerprint.hpp>
#include <lab/core/installation.hpp>
#include <lab/services/services.hpp>
#include <lab/target/target.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <new>
#include <random>

namespace {

using namespace kl;
using namespace kl::target_bench;

using Axes = std::map<std::string, int64_t>;

struct Shape {
  std::string target;
  Axes axes;
  std::vector<std::string> with = {};  // optional tensors that are there
};

// What the trainer's `cpu-balanced` calls, and twice the rows of twice the width. In the caches arithmetic may be the
// ceiling, so also what is far larger than they are, where memory is.
const Shape kShapes[] = {
    {"rmsnorm", {{"N", 1024}, {"C", 256}}},
    {"rmsnorm", {{"N", 1024}, {"C", 256}}, {"w", "dw"}},
    {"rmsnorm", {{"N", 2048}, {"C", 512}}},
    {"rmsnorm", {{"N", 1 << 17}, {"C", 256}}},
    {"rmsnorm", {{"N", 2048}, {"C", 512}}, {"w", "dw"}},
    {"activation_pointwise", {{"N", 1024}, {"C", 1024}}},
    {"activation_pointwise", {{"N", 2048}, {"C", 2048}}},
    {"loss_prelude", {{"N", 1024}, {"V", 8192}}},
    {"launch_fusion", {{"N", 1024}, {"C", 256}}},
    {"residual_blend", {{"N", 1024}, {"C", 256}}},
    {"residual_rmsnorm", {{"N", 1024}, {"C", 256}}},
    {"residual_rmsnorm", {{"N", 1 << 17}, {"C", 256}}},
    {"rotary_embedding", {{"B", 4}, {"T", 256}, {"H", 2}, {"K", 2}, {"D", 128}, {"D2", 64}}},
    {"rotary_embedding", {{"B", 16}, {"T", 2048}, {"H", 4}, {"K", 4}, {"D", 128}, {"D2", 64}}},
    {"qk_rmsnorm", {{"B", 4}, {"T", 256}, {"H", 2}, {"K", 2}, {"D", 128}}},
    {"qk_rmsnorm", {{"B", 16}, {"T", 2048}, {"H", 4}, {"K", 4}, {"D", 128}}},
    {"rope_qk_fused", {{"B", 4}, {"T", 256}, {"H", 2}, {"K", 2}, {"D", 128}, {"D2", 64}}},
    {"rope_qk_fused", {{"B", 16}, {"T", 2048}, {"H", 4}, {"K", 4}, {"D", 128}, {"D2", 64}}},
    {"layernorm", {{"N", 1024}, {"C", 256}}},
    {"layernorm", {{"N", 1 << 17}, {"C", 256}}},
    {"logits_softcap", {{"N", 1024}, {"V", 8192}}},
    {"cross_entropy_prelude", {{"N", 1024}, {"V", 8192}}},
    {"cross_entropy_prelude", {{"N", 8192}, {"V", 8192}}},
    {"reduce", {{"N", 1}, {"C", 8 << 20}}},
    {"softmax", {{"N", 8}, {"T", 256}, {"K", 256}}},
    {"softmax", {{"N", 128}, {"T", 512}, {"K", 512}}},
    {"matmul_epilogue", {{"M", 1024}, {"K", 256}, {"P", 256}}, {"residual"}},
    {"matmul_epilogue", {{"M", 1024}, {"K", 1024}, {"P", 256}}, {"residual"}},
    {"matmul_epilogue", {{"M", 1024}, {"K", 256}, {"P", 8192}}},
    {"fused_mlp", {{"N", 1024}, {"C", 256}, {"F", 1024}}},
    {"attention_prelude",
     {{"N", 1024}, {"C", 256}, {"H", 2}, {"K", 2}, {"D", 128}},
     {"ve", "wg", "dve", "dwg"}},
    {"block_prelude",
     {{"B", 4}, {"T", 256}, {"C", 256}, {"H", 2}, {"K", 2}, {"D", 128}, {"D2", 64}},
     {"ve", "wg", "dve", "dwg"}},
    {"cross_entropy_full", {{"N", 1024}, {"C", 256}, {"V", 8192}}},
    {"optimizer_update", {{"N", 8 << 20}, {"S", 16}, {"R", 256}, {"C", 256}, {"M", 256}}},
    {"optimizer_update", {{"N", 1 << 20}, {"S", 4}, {"R", 1024}, {"C", 256}, {"M", 1024}}},
    {"optimizer_update", {{"N", 1 << 20}, {"S", 4}, {"R", 256}, {"C", 1024}, {"M", 1024}}},
};

struct FreeAligned {
  void operator()(float* p) const { std::free(p); }
};
using Memory = std::unique_ptr<float, FreeAligned>;

Memory allocate(int64_t bytes) {
  const auto padded = static_cast<size_t>((bytes + 4095) / 4096 * 4096);
  Memory memory(static_cast<float*>(std::aligned_alloc(4096, std::max<size_t>(padded, 4096))));
  std::fill_n(memory.get(), std::max<size_t>(padded, 4096) / 4, 0.0f);
  return memory;
}

struct Tensor {
  std::vector<int64_t> shape;
  Memory memory;
  DLTensor view{};
  int64_t elements = 1;
};

Tensor make_tensor(const TensorSpec& spec, const Shape& shape, std::mt19937& random) {
  Tensor t;
  for (const std::string& axis : spec.axes) {
    const auto found = shape.axes.find(axis);
    t.shape.push_back(found == shape.axes.end() ? std::stoll(axis) : found->second);
    t.elements *= t.shape.back();
  }
  const uint8_t bits = spec.dtype == "f64" ? 64 : 32;
  const auto code = static_cast<uint8_t>(spec.dtype == "i32" ? kDLInt : kDLFloat);
  t.memory = allocate(t.elements * bits / 8);
  std::normal_distribution<float> normal(0, 1);
  if (spec.kind == InputKind::real && bits == 32)
    for (int64_t i = 0; i < t.elements; ++i) t.memory.get()[i] = normal(random);
  if (spec.kind == InputKind::unit) t.memory.get()[0] = 1;
  if (spec.kind == InputKind::fraction) std::fill_n(t.memory.get(), t.elements, 0.5f);
  if (spec.kind == InputKind::index || spec.kind == InputKind::count) {
    const auto bound = static_cast<uint32_t>(
        spec.kind == InputKind::index ? shape.axes.at(spec.index_bound) : int64_t{8});
    for (int64_t i = 0; i < t.elements; ++i)
      reinterpret_cast<int32_t*>(t.memory.get())[i] = static_cast<int32_t>(random() % bound);
  }
  t.view = {t.memory.get(), {kDLCPU, 0}, static_cast<int32_t>(t.shape.size()), {code, bits, 1},
            nullptr,        nullptr,     0};
  const bool there =
      !spec.optional || std::find(shape.with.begin(), shape.with.end(), spec.name) != shape.with.end();
  if (!there) t.view = {nullptr, {kDLCPU, 0}, 0, {code, bits, 1}, nullptr, nullptr, 0};
  return t;
}

// One kernel prepared for one operation.
class Prepared {
 public:
  Prepared(const kl_kernel_table& table, const OperationSpec& operation, std::vector<Tensor>& inputs,
           std::vector<Tensor>& outputs, Memory& saved, const kl_services& lent, int threads)
      : table_(table) {
    for (const ScalarSpec& s : operation.scalars) scalars_.push_back(s.value);
    const auto views = [](std::vector<Tensor>& tensors, std::vector<DLTensor>& to) {
      for (Tensor& t : tensors) {
        to.push_back(t.view);
        if (t.view.ndim > 0) to.back().shape = t.shape.data();
      }
    };
    views(inputs, inputs_);
    views(outputs, outputs_);
    problem_ = {operation.index, static_cast<int32_t>(inputs_.size()),
                static_cast<int32_t>(outputs_.size()), static_cast<int32_t>(scalars_.size()),
                inputs_.data(), outputs_.data(), scalars_.data(), threads, 0};
    scratch_ = allocate(static_cast<int64_t>(table_.scratch_bytes(&problem_)));
    if (operation.index == KL_FORWARD)
      saved = allocate(static_cast<int64_t>(table_.saved_bytes(&problem_)));
    if (table_.prepare(&problem_, &lent, &plan_).code != KL_OK)
      throw std::runtime_error("a kernel refuses its own target's shape");
    call_ = {inputs_.data(), outputs_.data(), scalars_.data(), saved.get(), scratch_.get()};
  }
  void run() const {
    if (table_.run(&plan_, &call_, nullptr).code != KL_OK) throw std::runtime_error("run failed");
  }
  const kl_problem& problem() const { return problem_; }

 private:
  const kl_kernel_table& table_;
  std::vector<DLTensor> inputs_, outputs_;
  std::vector<double> scalars_;
  Memory scratch_;
  kl_problem problem_{};
  kl_plan plan_{};
  kl_call call_{};
};

// Wall time; on one thread CPU time, which a loaded machine stretches less.
int64_t now_ns(int threads) {
  if (threads > 1) return monotonic_ns();
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

template <class F>
double time_ms(int threads, F f) {
  const int64_t start = now_ns(threads);
  f();
  return static_cast<double>(now_ns(threads) - start) * 1e-6;
}

// The fastest decile: what is left when foreign load only ever adds time, for all arms alike.
double decile(std::vector<double> values) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().what + "; " + result.error().remedy);
  return std::move(result).value();
}

std::string describe_axes(const Shape& shape) {
  std::string text;
  for (const auto& [axis, length] : shape.axes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis, length);
  return text + (shape.with.empty() ? "" : " " + shape.with.front());
}

// One pass of a copy with the same mix: one or two arrays read, one written, or one read only.
struct Pass {
  const float *first, *second;
  float* out;
  int64_t elements;
};

// Appends the arrays that count: those of more than a sixteenth of the largest.
void append_large(const std::vector<Tensor>& tensors, int64_t largest, std::vector<const Tensor*>& to) {
  for (const Tensor& t : tensors)
    if (t.view.ndim > 0 && 16 * t.elements > largest) to.push_back(&t);
}

// Output i is copied from array i of those that are read, and from the array as far behind that as
// there are outputs, where they are as long. Outputs that are added to are read, too.
std::vector<Pass> copy_passes(const OperationSpec& operation, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& outputs) {
  int64_t largest = 0;
  for (const auto* tensors : {&inputs, &outputs})
    for (const Tensor& t : *tensors) largest = std::max(largest, t.view.ndim > 0 ? t.elements : 0);
  std::vector<const Tensor*> in, out;
  append_large(inputs, largest, in);
  append_large(outputs, largest, out);
  if (out.empty()) return {{in.front()->memory.get(), nullptr, nullptr, in.front()->elements}};
  for (const Tensor* t : std::vector(out))
    if (operation.outputs[static_cast<size_t>(t - outputs.data())].mode != OutputMode::write)
      in.push_back(t);
  std::vector<Pass> passes;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto source = [&](size_t at) {
      const bool fits = at < in.size() && in[at]->elements == out[i]->elements;
      return fits ? in[at]->memory.get() : nullptr;
    };
    const float* first = source(i);
    passes.push_back({first != nullptr ? first : out[i]->memory.get(), source(i + out.size()),
                      out[i]->memory.get(), out[i]->elements});
  }
  return passes;
}

// What the champion is held against, timed in turn with it.
class Ceiling {
 public:
  virtual ~Ceiling() = default;
  virtual void round(bool seldom) = 0;
  virtual std::string text(const oracle::Cost& cost, double ms) const = 0;
};

class Copy : public Ceiling {
 public:
  Copy(std::vector<Pass> passes, int threads) : passes_(std::move(passes)), threads_(threads) {}
  void round(bool seldom) override {
    cached_ms_.push_back(time_ms(threads_, [&] { copy(false); }));
    if (!seldom || passes_.front().out == nullptr) return;
    streamed_ms_.push_back(time_ms(threads_, [&] { copy(true); }));
    // Streamed stores leave the caches without the output: two cached passes bring it back.
    for (int pass = 0; pass < 2; ++pass) copy(false);
  }
  double gigabytes_per_s() const {
    double copied = 0;
    for (const Pass& pass : passes_)
      copied += static_cast<double>(pass.elements) * 4 *
                (1 + (pass.second != nullptr) + (pass.out != nullptr));
    const double ms = std::min(decile(cached_ms_), streamed_ms_.empty() ? 1e30 : decile(streamed_ms_));
    return copied / ms * 1e-6;
  }
  std::string text(const oracle::Cost& cost, double ms) const override {
    const double rate = (cost.bytes_read + cost.bytes_written) / ms * 1e-6, copy = gigabytes_per_s();
    return fmt::format("{:>8.1f} {:>8.1f} GB/s    {:>5.0f} % of copy", rate, copy, 100 * rate / copy);
  }

 private:
  void copy(bool streamed) const {
    for (const Pass& pass : passes_)
      move_bytes(pass.first, pass.second, pass.out, pass.elements, streamed, threads_);
  }
  const std::vector<Pass> passes_;
  const int threads_;
  std::vector<double> cached_ms_, streamed_ms_;
};

// One square product on all threads.
class Product : public Ceiling {
 public:
  explicit Product(int threads)
      : threads_(threads), a_(filled()), b_(filled()), c_(filled()) {}
  void round(bool) override {
    const auto product = [&] {
      (void)services(kService).sgemm('N', 'N', kSize, kSize, kSize, 1, a_.get(), kSize, b_.get(), kSize,
                                     0, c_.get(), kSize);
    };
    ms_.push_back(time_ms(threads_, product));
  }
  std::string text(const oracle::Cost& cost, double ms) const override {
    const double rate = cost.flops / ms * 1e-6, product = 2.0 * kSize * kSize * kSize / decile(ms_) * 1e-6;
    return fmt::format("{:>8.1f} {:>8.1f} GFLOP/s {:>5.0f} % of sgemm", rate, product, 100 * rate / product);
  }

 private:
  static constexpr int64_t kSize = 1024;
  static inline const std::vector<std::string> kService{"sgemm"};
  static Memory filled() {
    Memory memory = allocate(kSize * kSize * 4);
    for (int64_t i = 0; i < kSize * kSize; ++i) memory.get()[i] = static_cast<float>(i % 97 - 48);
    return memory;
  }
  const int threads_;
  Memory a_, b_, c_;
  std::vector<double> ms_;
};

constexpr double kPatienceMs = 300;  // a reference that takes longer is timed once

// From here on operations, not bytes, take the time: cores do about as many a byte of memory.
constexpr double kRidge = 8;  // operations a byte

void bench_shape(const Shape& shape, const Builder& builder, Engine& cpu, int rounds, int threads,
                 double tanh_exp_per_s, double exp_per_s) {
  const Target target = value_of(read_target(Installation::find().targets / shape.target));
  const auto load = [&](const std::filesystem::path& source) {
    return value_of(KernelLibrary::load(value_of(builder.build({source, "", {}})).path, target.key));
  };
  const KernelLibrary champion = load(target.champion(cpu).value()), reference = load(target.reference());
  const OracleLibrary oracle = value_of(
      OracleLibrary::load(value_of(builder.build_oracle(target.oracle())).path, target.key));
  std::mt19937 random(1);
  Memory champion_saved, reference_saved;
  for (const OperationSpec& operation : target.operations) {
    std::vector<Tensor> inputs, outputs;
    for (const TensorSpec& t : operation.inputs) inputs.push_back(make_tensor(t, shape, random));
    for (const TensorSpec& t : operation.outputs) outputs.push_back(make_tensor(t, shape, random));
    const kl_services& lent = services(target.services);
    const Prepared ours(champion.table(), operation, inputs, outputs, champion_saved, lent, threads);
    const Prepared plain(reference.table(), operation, inputs, outputs, reference_saved, lent, 1);
    oracle::Cost cost{};
    oracle.table().cost(&ours.problem(), &cost);
    const double moved = cost.bytes_read + cost.bytes_written;
    const auto copy = std::make_unique<Copy>(copy_passes(operation, inputs, outputs), threads);
    Product product(threads);
    Ceiling& ceiling = cost.flops > kRidge * moved ? static_cast<Ceiling&>(product) : *copy;

    std::vector<double> champion_ms, reference_ms;
    ours.run();
    reference_ms.push_back(time_ms(1, [&] { plain.run(); }));
    const bool patient = reference_ms.front() < kPatienceMs;
    for (int round = 0; round < rounds; ++round) {
      champion_ms.push_back(time_ms(threads, [&] { ours.run(); }));
      ceiling.round(round % 8 == 0);
      if (round % 8 == 0 && patient) reference_ms.push_back(time_ms(1, [&] { plain.run(); }));
    }
    const double ms = decile(champion_ms);
    fmt::print("{:<21} {:<9} {:<14} {:>8.3f} {} {:>9.1f}x", target.key, operation.name,
               describe_axes(shape), ms, ceiling.text(cost, ms), decile(reference_ms) / ms);
    const bool is_forward = operation.index == KL_FORWARD;
    const auto share_of = [&](std::string_view arithmetic, double per_s) {
      const auto elements = static_cast<double>(inputs[is_forward ? 0 : 1].elements);
      const double arithmetic_ms = elements / per_s * 1e3;
      const double ceiling_ms = std::max(arithmetic_ms, moved / copy->gigabytes_per_s() * 1e-6);
      fmt::print("   {:.0f} % of the lower of copy and {}", 100 * ceiling_ms / ms, arithmetic);
    };
    if (shape.target == "loss_prelude") share_of("tanh+exp", tanh_exp_per_s);
    if (is_forward && (shape.target == "softmax" || shape.target == "cross_entropy_prelude"))
      share_of("exp", exp_per_s);
    fmt::print("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(3, std::atoi(argv[1])) : 101;
  const int threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : usable_cores();
  const std::string only = argc > 3 ? argv[3] : "";
  try {
    Engine& cpu = *value_of(find_engine("cpu"));
    const Builder builder(cpu);
    make_services_ready(threads);
    const TanhExpRate rate = tanh_exp_rate(threads);
    const double best = std::max(rate.vector_library, rate.polynomial), exp_per_s = exp_rate(threads);
    fmt::print("{}, {} threads, fastest decile of {} rounds\n", cpu_model(), threads, rounds);
    fmt::print("tanh + exp from the first cache: vector library {:.2f} G/s, polynomials {:.2f} G/s; exp alone {:.2f} G/s\n\n",
               rate.vector_library * 1e-9, rate.polynomial * 1e-9, exp_per_s * 1e-9);
    fmt::print("{:<21} {:<9} {:<14} {:>8} {:>8} {:>8} {:>24} {:>10}\n", "target", "operation", "shape",
               "ms", "rate", "ceiling", "", "reference");
    for (const Shape& shape : kShapes)
      if (only.empty() || only == shape.target) bench_shape(shape, builder, cpu, rounds, threads, best, exp_per_s);
  } catch (const std::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return 1;
  }
  return 0;
}
