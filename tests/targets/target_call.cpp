#include "target_call.hpp"

#include <lab/build/builder.hpp>
#include <lab/core/installation.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>

namespace kl::target_test {

namespace {

constexpr size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0xA5, kPoison = 0xFF;  // four poison bytes are a float NaN

// A named axis, a number, or a product of such.
int64_t length_of(const std::string& axis, const Axes& axes) {
  if (const auto found = axes.find(axis); found != axes.end()) return found->second;
  const size_t star = axis.find('*');
  if (star == std::string::npos) return std::stoll(axis);
  return length_of(axis.substr(0, star), axes) * length_of(axis.substr(star + 1), axes);
}

int64_t product(const std::vector<int64_t>& shape) {
  int64_t n = shape.empty() ? 0 : 1;
  for (const int64_t length : shape) n *= length;
  return n;
}

DLDataType type_of(const TensorSpec& spec) {
  if (spec.dtype == "i32") return {kDLInt, 32, 1};
  if (spec.dtype == "f64") return {kDLFloat, 64, 1};
  return {kDLFloat, 32, 1};
}

// A buffer between guard zones; its first byte is 64-byte aligned.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuardBytes + 64, std::byte{kGuard}) {
    std::memset(data(), kPoison, bytes_);
  }
  std::byte* data() {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data()) + kGuardBytes;
    return memory_.data() + ((at + 63) / 64 * 64 - reinterpret_cast<uintptr_t>(memory_.data()));
  }
  bool intact() {
    const auto is_guard = [](std::byte b) { return b == std::byte{kGuard}; };
    return std::all_of(memory_.data(), data(), is_guard) &&
           std::all_of(data() + bytes_, memory_.data() + memory_.size(), is_guard);
  }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  std::vector<std::byte> memory_;
};

template <class T>
void write_as(const std::vector<double>& values, std::byte* to) {
  for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<T*>(to)[i] = static_cast<T>(values[i]);
}
template <class T>
std::vector<double> read_as(const std::byte* from, size_t count) {
  const T* values = reinterpret_cast<const T*>(from);
  return std::vector<double>(values, values + count);
}

// A DLPack view of an array, and the memory behind it.
struct Bound {
  Bound(const Array& array, const TensorSpec& spec, bool with_values)
      : shape(array.shape),
        type(type_of(spec)),
        buffer(static_cast<size_t>(product(array.shape)) * type.bits / 8) {
    view = {buffer.data(), {kDLCPU, 0}, static_cast<int32_t>(shape.size()), type,
            shape.data(),  nullptr,     0};
    if (shape.empty()) view.data = nullptr;
    if (!with_values) return;
    if (type.code == kDLInt) write_as<int32_t>(array.values, buffer.data());
    else if (type.bits == 64) write_as<double>(array.values, buffer.data());
    else write_as<float>(array.values, buffer.data());
  }
  std::vector<double> values() {
    const auto count = static_cast<size_t>(product(shape));
    if (type.code == kDLInt) return read_as<int32_t>(buffer.data(), count);
    if (type.bits == 64) return read_as<double>(buffer.data(), count);
    return read_as<float>(buffer.data(), count);
  }
  std::vector<int64_t> shape;
  DLDataType type;
  Guarded buffer;
  DLTensor view;
};

template <class T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().what + "; " + result.error().remedy);
  return std::move(result).value();
}

}  // namespace

Array& CallData::input(const std::string& name) {
  for (size_t i = 0; i < spec->inputs.size(); ++i)
    if (spec->inputs[i].name == name) return inputs[i];
  throw std::logic_error("no input " + name);
}

size_t CallData::output_index(const std::string& name) const {
  for (size_t i = 0; i < spec->outputs.size(); ++i)
    if (spec->outputs[i].name == name) return i;
  throw std::logic_error("no output " + name);
}

OracleLibrary oracle_of(const Target& target) {
  const Builder builder(*value_or_throw(find_engine("cpu")));
  return value_or_throw(OracleLibrary::load(
      value_or_throw(builder.build_oracle(target.oracle())).path, target.key));
}

const TargetUnderTest& target(const std::string& key) {
  static std::map<std::string, std::unique_ptr<TargetUnderTest>> built;
  if (auto& entry = built[key]; entry != nullptr) return *entry;
  Engine& cpu = *value_or_throw(find_engine("cpu"));
  const Builder builder(cpu);
  Target spec = value_or_throw(read_target(Installation::find().targets / key));
  const auto kernel = [&](const std::filesystem::path& source) {
    return value_or_throw(
        KernelLibrary::load(value_or_throw(builder.build({source, "", {}})).path, key));
  };
  OracleLibrary oracle = oracle_of(spec);
  KernelLibrary champion = kernel(spec.champion(cpu).value());
  KernelLibrary reference = kernel(spec.reference());
  built[key] = std::make_unique<TargetUnderTest>(
      TargetUnderTest{std::move(spec), std::move(oracle), std::move(champion), std::move(reference)});
  return *built[key];
}

CallData make_call(const OperationSpec& operation, const Axes& axes, uint64_t seed, double scale,
                   const std::vector<std::string>& absent) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::uniform_real_distribution<double> unit(0.5, 1.5);
  const auto is_absent = [&](std::string name) {
    // The gradient of an absent input is absent too: dw goes with w.
    return std::any_of(absent.begin(), absent.end(),
                       [&](const std::string& a) { return name == a || name == "d" + a; });
  };
  CallData call;
  call.operation = operation.index;
  call.spec = &operation;
  for (const ScalarSpec& scalar : operation.scalars) call.scalars.push_back(scalar.value);
  const auto shaped = [&](const TensorSpec& spec) {
    Array array;
    if (is_absent(spec.name)) return array;
    for (const std::string& axis : spec.axes) array.shape.push_back(length_of(axis, axes));
    array.values.resize(static_cast<size_t>(product(array.shape)));
    return array;
  };
  const auto filled = [&](const TensorSpec& spec) {
    Array array = shaped(spec);
    for (double& v : array.values) {
      switch (spec.kind) {
        case InputKind::real: v = static_cast<float>(normal(random)); break;
        case InputKind::unit: v = static_cast<float>(unit(random)); break;
        case InputKind::fraction: v = static_cast<float>(unit(random) / 2); break;
        case InputKind::count: v = static_cast<double>(random() % 8); break;
        case InputKind::index:
          v = static_cast<double>(random() % static_cast<uint64_t>(length_of(spec.index_bound, axes)));
          if (spec.ignore && random() % 8 == 0) v = static_cast<double>(*spec.ignore);
          break;
      }
    }
    return array;
  };
  for (const TensorSpec& spec : operation.inputs) call.inputs.push_back(filled(spec));
  for (const TensorSpec& spec : operation.outputs)
    call.outputs.push_back(spec.mode == OutputMode::write ? shaped(spec) : filled(spec));
  return call;
}

double terms_length(const TensorSpec& output, const Axes& axes) {
  return output.terms.empty() ? 1 : static_cast<double>(length_of(output.terms, axes));
}

std::vector<OracleOutput> evaluate(const OracleLibrary& oracle, const CallData& call, bool tracked) {
  std::vector<OracleOutput> results;
  std::vector<oracle::Tensor> inputs, outputs;
  for (const Array& array : call.inputs)
    inputs.push_back({"", static_cast<int32_t>(array.shape.size()), array.shape.data(),
                      const_cast<double*>(array.values.data()), nullptr});
  for (const Array& array : call.outputs)
    results.push_back({array.values, std::vector<double>(tracked ? array.values.size() : 0)});
  for (size_t i = 0; i < results.size(); ++i)
    outputs.push_back({"", static_cast<int32_t>(call.outputs[i].shape.size()),
                       call.outputs[i].shape.data(), results[i].values.data(),
                       tracked ? results[i].terms.data() : nullptr});
  const oracle::CallTable table{call.operation,
                                static_cast<int32_t>(inputs.size()),
                                static_cast<int32_t>(outputs.size()),
                                static_cast<int32_t>(call.scalars.size()),
                                inputs.data(),
                                outputs.data(),
                                call.scalars.data()};
  EXPECT_EQ(oracle.table().evaluate(&table), 0);
  return results;
}

std::vector<std::vector<double>> run(const KernelLibrary& kernel, const CallData& call,
                                     std::vector<std::byte>& saved, int threads) {
  std::vector<std::unique_ptr<Bound>> inputs, outputs;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    inputs.push_back(std::make_unique<Bound>(call.inputs[i], call.spec->inputs[i], true));
  for (size_t i = 0; i < call.outputs.size(); ++i)
    outputs.push_back(std::make_unique<Bound>(call.outputs[i], call.spec->outputs[i],
                                              call.spec->outputs[i].mode != OutputMode::write));
  std::vector<DLTensor> input_views, output_views;
  for (const auto& bound : inputs) input_views.push_back(bound->view);
  for (const auto& bound : outputs) output_views.push_back(bound->view);
  std::vector<DLTensor> input_shapes = input_views, output_shapes = output_views;
  for (auto* views : {&input_shapes, &output_shapes})
    for (DLTensor& view : *views) view.data = nullptr;

  const kl_problem problem{call.operation,
                           static_cast<int32_t>(input_shapes.size()),
                           static_cast<int32_t>(output_shapes.size()),
                           static_cast<int32_t>(call.scalars.size()),
                           input_shapes.data(),
                           output_shapes.data(),
                           call.scalars.data(),
                           threads,
                           0};
  const kl_kernel_table& table = kernel.table();
  const kl_result accepted = table.accepts(&problem);
  EXPECT_EQ(accepted.code, KL_OK) << (accepted.text != nullptr ? accepted.text : "");
  Guarded scratch(table.scratch_bytes(&problem));
  if (call.operation == KL_FORWARD) saved.assign(table.saved_bytes(&problem), std::byte{kPoison});
  Guarded lent(saved.size());
  std::memcpy(lent.data(), saved.data(), saved.size());
  const kl_services services{sizeof(kl_services), 0, nullptr};
  kl_plan plan{};
  EXPECT_EQ(table.prepare(&problem, &services, &plan).code, KL_OK);
  const kl_call arguments{input_views.data(), output_views.data(), call.scalars.data(), lent.data(),
                          scratch.data()};
  EXPECT_EQ(table.run(&plan, &arguments, nullptr).code, KL_OK);

  std::memcpy(saved.data(), lent.data(), saved.size());
  EXPECT_TRUE(scratch.intact()) << "scratch overflow";
  EXPECT_TRUE(lent.intact()) << "saved overflow";
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(inputs[i]->buffer.intact()) << "wrote beside input " << i;
    const Bound fresh(call.inputs[i], call.spec->inputs[i], true);
    EXPECT_EQ(std::memcmp(const_cast<Bound&>(fresh).buffer.data(), inputs[i]->buffer.data(),
                          fresh.buffer.size()),
              0)
        << "wrote input " << i;
  }
  std::vector<std::vector<double>> results;
  for (const auto& bound : outputs) {
    EXPECT_TRUE(bound->buffer.intact()) << "wrote beside an output";
    results.push_back(bound->values());
  }
  return results;
}

void expect_within_bound(const std::vector<std::vector<double>>& got,
                         const std::vector<OracleOutput>& expected, const CallData& call,
                         const Axes& axes, const std::string& what) {
  constexpr double u = 0x1p-24, smallest_normal = 0x1p-126;
  for (size_t o = 0; o < expected.size(); ++o) {
    const double factor = 6 * std::sqrt(terms_length(call.spec->outputs[o], axes)) * u;
    for (size_t i = 0; i < expected[o].values.size(); ++i) {
      const double y = expected[o].values[i], value = got[o][i];
      const double bound =
          u * std::fabs(y) + factor * std::max(expected[o].terms[i], smallest_normal);
      const bool right = std::isnan(y)   ? std::isnan(value)
                         : std::isinf(y) ? value == y
                                         : std::fabs(value - y) <= bound;
      ASSERT_TRUE(right) << fmt::format("{}: {}[{}] is {:.9g}, expected {:.9g} within {:.3g}", what,
                                        call.spec->outputs[o].name, i, value, y, bound);
    }
  }
}

}  // namespace kl::target_test
