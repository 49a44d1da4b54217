#include "target_call.hpp"

#include <lab/build/builder.hpp>
#include <lab/core/installation.hpp>
#include <lab/services/services.hpp>
#include <lab/target/axes.hpp>
#include <lab/verify/tensor_data.hpp>

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

template <class T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().what + "; " + result.error().remedy);
  return std::move(result).value();
}

int64_t length_of(const std::string& axis, const Axes& axes) {
  return value_or_throw(axis_length(axis, axes));
}

int64_t product(const std::vector<int64_t>& shape) {
  return shape.empty() ? 0 : element_count(shape);
}

// A buffer between guard zones; its first byte is 64-byte aligned.
class Guarded {
 public:
  explicit Guarded(size_t bytes)
      : bytes_(bytes), memory_(bytes + 2 * kGuardBytes + 64, std::byte{kGuard}) {
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

// A DLPack view of an array, and the memory behind it.
struct Placed {
  Placed(const Array& array, DLDataType dtype, bool with_values)
      : shape(array.shape),
        type(dtype),
        buffer(static_cast<size_t>(product(array.shape)) * type.bits / 8) {
    view = {buffer.data(),
            {kDLCPU, 0},
            static_cast<int32_t>(shape.size()),
            type,
            shape.data(),
            nullptr,
            0};
    if (shape.empty()) view.data = nullptr;
    if (!with_values) return;
    from_doubles(type, array.values, buffer.data());
  }
  std::vector<double> values() {
    std::vector<double> read(static_cast<size_t>(product(shape)));
    to_doubles(type, buffer.data(), read);
    return read;
  }
  std::vector<int64_t> shape;
  DLDataType type;
  Guarded buffer;
  DLTensor view;
};

void round_to(DLDataType type, std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * element_bytes(type));
  from_doubles(type, values, bytes.data());
  to_doubles(type, bytes.data(), values);
}

}  // namespace

DLDataType type_of(const TensorSpec& spec, const std::string& dtype) {
  return value_or_throw(dtype_from_name(spec.dtype == "T" ? dtype : spec.dtype));
}

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

const Catalogue& catalogue() {
  static const Catalogue found = Catalogue::search(target_search_path({}));
  return found;
}

OracleLibrary oracle_of(const Target& target) {
  const Builder builder(*value_or_throw(find_engine("cpu")));
  return value_or_throw(
      OracleLibrary::load(value_or_throw(builder.build_oracle(target.oracle())).path, target.key));
}

const TargetUnderTest& target(const std::string& key) {
  static std::map<std::string, std::unique_ptr<TargetUnderTest>> built;
  if (auto& entry = built[key]; entry != nullptr) return *entry;
  Engine& cpu = *value_or_throw(find_engine("cpu"));
  const Builder builder(cpu);
  Target spec = value_or_throw(read_target(Installation::find().targets / key));
  const auto kernel = [&](const std::filesystem::path& source) {
    return LentKernel{value_or_throw(KernelLibrary::load(
                          value_or_throw(builder.build({source, "", {}})).path, key)),
                      &services(spec.services)};
  };
  OracleLibrary oracle = oracle_of(spec);
  LentKernel champion = kernel(spec.champion(cpu).value());
  LentKernel reference = kernel(spec.reference());
  built[key] = std::make_unique<TargetUnderTest>(TargetUnderTest{
      std::move(spec), std::move(oracle), std::move(champion), std::move(reference)});
  return *built[key];
}

CallData make_call(const OperationSpec& operation, const Axes& axes, uint64_t seed, double scale,
                   const std::vector<std::string>& absent, const std::string& dtype) {
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
  call.dtype = dtype;
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
        case InputKind::real:
          v = normal(random);
          break;
        case InputKind::unit:
          v = unit(random);
          break;
        case InputKind::fraction:
          v = unit(random) / 2;
          break;
        case InputKind::count:
          v = static_cast<double>(random() % 8);
          break;
        case InputKind::index:
          v = static_cast<double>(random() %
                                  static_cast<uint64_t>(length_of(spec.index_bound, axes)));
          if (spec.ignore && random() % 8 == 0) v = static_cast<double>(*spec.ignore);
          break;
      }
    }
    round_to(type_of(spec, dtype), array.values);
    return array;
  };
  for (const TensorSpec& spec : operation.inputs) call.inputs.push_back(filled(spec));
  for (const TensorSpec& spec : operation.outputs)
    call.outputs.push_back(spec.mode == OutputMode::write ? shaped(spec) : filled(spec));
  return call;
}

std::vector<CallData> draw_calls(const TargetUnderTest& t, const CaseShape& shape, uint64_t seed,
                                 double scale, const std::vector<std::string>& absent,
                                 const std::function<void(CallData&)>& change) {
  std::vector<CallData> calls;
  std::map<std::string, Array> known;
  for (const OperationSpec& operation : t.spec.operations) {
    CallData& call = calls.emplace_back(make_call(operation, shape.axes, seed + calls.size(),
                                                  calls.empty() ? scale : 1, absent, shape.dtype));
    if (calls.size() == 1 && change) change(call);
    for (size_t i = 0; i < call.inputs.size(); ++i)
      call.inputs[i] = known.try_emplace(operation.inputs[i].name, call.inputs[i]).first->second;
    if (calls.size() > 1 || t.spec.operations.size() == 1) continue;
    const auto made = evaluate(t.oracle, call, false);
    for (size_t o = 0; o < made.size(); ++o) {
      Array& array = known[operation.outputs[o].name] = {call.outputs[o].shape, made[o].values};
      round_to(type_of(operation.outputs[o], shape.dtype), array.values);
    }
  }
  return calls;
}

std::vector<std::vector<std::string>> presences(const OperationSpec& first) {
  std::vector<std::string> optional;
  for (const auto* tensors : {&first.inputs, &first.outputs})
    for (const TensorSpec& tensor : *tensors)
      if (tensor.optional) optional.push_back(tensor.name);
  if (optional.empty()) return {{}};
  return {{}, optional};
}

std::vector<OracleOutput> evaluate(const OracleLibrary& oracle, const CallData& call,
                                   bool tracked) {
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

std::vector<std::vector<double>> run(const LentKernel& kernel, const CallData& call,
                                     std::vector<std::byte>& saved, int threads) {
  std::vector<std::unique_ptr<Placed>> inputs, outputs;
  const auto type = [&](const TensorSpec& spec) { return type_of(spec, call.dtype); };
  for (size_t i = 0; i < call.inputs.size(); ++i)
    inputs.push_back(std::make_unique<Placed>(call.inputs[i], type(call.spec->inputs[i]), true));
  for (size_t i = 0; i < call.outputs.size(); ++i)
    outputs.push_back(std::make_unique<Placed>(call.outputs[i], type(call.spec->outputs[i]),
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
  const kl_kernel_table& table = kernel.library.table();
  const kl_result accepted = table.accepts(&problem);
  EXPECT_EQ(accepted.code, KL_OK) << (accepted.text != nullptr ? accepted.text : "");
  Guarded scratch(table.scratch_bytes(&problem));
  if (call.operation == KL_FORWARD) saved.assign(table.saved_bytes(&problem), std::byte{kPoison});
  Guarded lent(saved.size());
  std::memcpy(lent.data(), saved.data(), saved.size());
  kl_plan plan{};
  EXPECT_EQ(table.prepare(&problem, kernel.services, &plan).code, KL_OK);
  const kl_call arguments{input_views.data(), output_views.data(), call.scalars.data(), lent.data(),
                          scratch.data()};
  EXPECT_EQ(table.run(&plan, &arguments, nullptr).code, KL_OK);

  std::memcpy(saved.data(), lent.data(), saved.size());
  EXPECT_TRUE(scratch.intact()) << "scratch overflow";
  EXPECT_TRUE(lent.intact()) << "saved overflow";
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(inputs[i]->buffer.intact()) << "wrote beside input " << i;
    Placed fresh(call.inputs[i], type(call.spec->inputs[i]), true);
    EXPECT_EQ(std::memcmp(fresh.buffer.data(), inputs[i]->buffer.data(), fresh.buffer.size()), 0)
        << "wrote input " << i;
  }
  std::vector<std::vector<double>> results;
  for (const auto& bound : outputs) {
    EXPECT_TRUE(bound->buffer.intact()) << "wrote beside an output";
    results.push_back(bound->values());
  }
  return results;
}

Bound bound_of(const Target& target, const CallData& call, size_t output, const Axes& axes) {
  const TensorSpec& spec = call.spec->outputs[output];
  return make_bound(target, type_of(spec, call.dtype), length_of(spec.terms, axes), true);
}

void expect_within_bound(const Target& target, const std::vector<std::vector<double>>& got,
                         const std::vector<OracleOutput>& expected, const CallData& call,
                         const Axes& axes, const std::string& what) {
  for (size_t o = 0; o < expected.size(); ++o) {
    const Bound allowed = bound_of(target, call, o, axes);
    for (size_t i = 0; i < expected[o].values.size(); ++i) {
      const double y = expected[o].values[i], value = got[o][i];
      const double bound = allowed(y, expected[o].terms[i]);
      const bool right = std::isnan(y)   ? std::isnan(value)
                         : std::isinf(y) ? value == y
                                         : std::fabs(value - y) <= bound;
      ASSERT_TRUE(right) << fmt::format("{}: {}[{}] is {:.9g}, expected {:.9g} within {:.3g}", what,
                                        call.spec->outputs[o].name, i, value, y, bound);
    }
  }
}

}  // namespace kl::target_test
