// The seams held by the targets' oracles, in double: what the gradient check runs on, and what the
// float model with kernel libraries is compared with. For tests.
#pragma once

#include <lab/build/builder.hpp>
#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <trainer/contract.hpp>
#include <trainer/seam_table.hpp>

#include <map>
#include <stdexcept>

namespace kl::trainer {

class OracleSeams : public Seams<double> {
 public:
  explicit OracleSeams(const Config& config) {
    const Catalogue catalogue = Catalogue::search(target_search_path({}));
    for (const SeamUse& use : seam_table(config)) {
      const Target target = *target_of(catalogue, contract_of(use.seam));
      for (const SeamCalls& calls : use.calls) {
        Form form{{}, &oracle(target)};
        for (const OperationSpec& operation : target.operations)
          form.calls.push_back(*form_of(operation, calls.shape));
        for (const int site : calls.sites) forms_[{use.seam, site}] = form;
      }
    }
  }

  void run(Seam seam, int operation, int site, std::initializer_list<const void*> inputs,
           std::initializer_list<void*> outputs) override {
    evaluate(operation, forms_.at({seam, site}), inputs, outputs);
  }

 private:
  struct Form {
    std::vector<CallForm> calls;  // by operation
    const oracle::OracleTable* oracle = nullptr;
  };

  // Each target's oracle is built and opened once in a process.
  static const oracle::OracleTable& oracle(const Target& target) {
    static const TemporaryFolder cache = std::move(*TemporaryFolder::create("trainer-oracles"));
    static std::map<std::string, OracleLibrary> opened;
    if (const auto it = opened.find(target.key); it != opened.end()) return it->second.table();
    const auto built = Builder(**find_engine("cpu"), cache.path()).build_oracle(target.oracle());
    if (!built.ok()) throw std::runtime_error(built.error().what);
    auto library = OracleLibrary::load(built->path, target.key);
    if (!library.ok()) throw std::runtime_error(library.error().what);
    return opened.emplace(target.key, std::move(*library)).first->second.table();
  }

  static int64_t size_of(const TensorForm& form) {
    int64_t size = form.shape.empty() ? 0 : 1;
    for (const int64_t length : form.shape) size *= length;
    return size;
  }

  // Where element i of a packed tensor lies.
  static int64_t place_of(const TensorForm& form, int64_t i) {
    if (form.strides.empty()) return i;
    int64_t at = 0;
    for (size_t axis = form.shape.size(); axis-- > 0; i /= form.shape[axis])
      at += i % form.shape[axis] * form.strides[axis];
    return at;
  }

  // What an oracle sees is packed and in double.
  static std::vector<double> packed(const TensorForm& form, const void* data) {
    std::vector<double> values(static_cast<size_t>(size_of(form)));
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t at = place_of(form, static_cast<int64_t>(i));
      values[i] = form.type.code == kDLInt ? static_cast<const int32_t*>(data)[at]
                                           : static_cast<const double*>(data)[at];
    }
    return values;
  }

  static void evaluate(int operation, const Form& form, std::initializer_list<const void*> inputs,
                       std::initializer_list<void*> outputs) {
    const CallForm& call = form.calls[static_cast<size_t>(operation)];
    std::vector<std::vector<double>> values, results;
    std::vector<oracle::Tensor> in, out;
    values.reserve(inputs.size());
    results.reserve(outputs.size());
    size_t i = 0;
    for (const void* data : inputs) {
      const TensorForm& f = call.inputs[i++];
      values.push_back(data == nullptr ? std::vector<double>() : packed(f, data));
      in.push_back({"", static_cast<int32_t>(f.shape.size()), f.shape.data(), values.back().data(),
                    nullptr});
    }
    i = 0;
    for (void* data : outputs) {
      const TensorForm& f = call.outputs[i++];
      results.push_back(data == nullptr ? std::vector<double>() : packed(f, data));  // accumulated into
      out.push_back({"", static_cast<int32_t>(f.shape.size()), f.shape.data(),
                     results.back().data(), nullptr});
    }
    const oracle::CallTable table{operation,
                                  static_cast<int32_t>(in.size()),
                                  static_cast<int32_t>(out.size()),
                                  static_cast<int32_t>(call.scalars.size()),
                                  in.data(),
                                  out.data(),
                                  call.scalars.data()};
    if (form.oracle->evaluate(&table) != 0)
      throw std::runtime_error("an oracle refused the trainer's shape");
    i = 0;
    for (void* data : outputs) {
      const TensorForm& f = call.outputs[i];
      for (size_t k = 0; k < results[i].size(); ++k)
        static_cast<double*>(data)[place_of(f, static_cast<int64_t>(k))] = results[i][k];
      ++i;
    }
  }

  std::map<std::pair<Seam, int>, Form> forms_;
};

}  // namespace kl::trainer
