// Runs a kernel that was built with a sanitizer on exactly sized heap buffers. It judges nothing:
// the sanitizer's run-time ends this process when it objects. Started by `verify --sanitize`.
//   kernel-lab-sanitizer LIBRARY CASES.json CASES.bin
#include <lab/build/loader.hpp>
#include <lab/core/files.hpp>
#include <lab/core/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<void, Free>;

// Exactly `bytes` long, so that the red zone begins at the first byte past the end.
Buffer allocate(size_t bytes) {
  void* p = nullptr;
  if (bytes > 0 && posix_memalign(&p, 64, bytes) != 0) std::exit(1);
  return Buffer(p);
}

struct Tensors {
  std::vector<DLTensor> views;
  std::vector<std::vector<int64_t>> shapes;
};

class Runner {
 public:
  Runner(const kl_kernel_table& table, std::string blob) : table_(table), blob_(std::move(blob)) {}

  // Forward and backward of one case; a kernel that declines a shape is not run on it.
  int run_case(const kl::Json& item) {
    buffers_.clear();
    Buffer saved;
    for (const auto& operation : item["operations"]) {
      Tensors inputs = tensors(operation["inputs"], true);
      Tensors outputs = tensors(operation["outputs"], false);
      const auto scalars = operation["scalars"].get<std::vector<double>>();
      const kl_problem problem = describe(operation["index"].get<int>(), inputs, outputs, scalars);
      if (table_.accepts(&problem).code != KL_OK) return 0;
      if (problem.operation == KL_FORWARD) saved = allocate(table_.saved_bytes(&problem));
      const Buffer scratch = allocate(table_.scratch_bytes(&problem));
      kl_plan plan{};
      if (table_.prepare(&problem, &services_, &plan).code != KL_OK) return 1;
      const kl_call call{inputs.views.data(), outputs.views.data(), scalars.data(), saved.get(),
                         scratch.get()};
      if (table_.run(&plan, &call, nullptr).code != KL_OK) return 1;
    }
    return 0;
  }

 private:
  // Inputs of one name are one buffer for both operations.
  void* buffer(const kl::Json& tensor, size_t bytes, bool shared) {
    const auto name = tensor["name"].get<std::string>();
    const std::string key = shared ? "in " + name : "out " + name + std::to_string(buffers_.size());
    Buffer& held = buffers_[key];
    if (!held) {
      held = allocate(bytes);
      std::memcpy(held.get(), blob_.data() + tensor["offset"].get<size_t>(),
                  tensor["given"].get<size_t>());
    }
    return held.get();
  }

  Tensors tensors(const kl::Json& list, bool shared) {
    Tensors result;
    for (const auto& tensor : list)
      result.shapes.push_back(tensor["shape"].get<std::vector<int64_t>>());
    for (size_t i = 0; i < list.size(); ++i) {
      DLTensor view{};
      view.device = {kDLCPU, 0};
      view.dtype = {list[i]["code"].get<uint8_t>(), list[i]["bits"].get<uint8_t>(), 1};
      view.ndim = static_cast<int>(result.shapes[i].size());
      view.shape = result.shapes[i].data();
      size_t bytes = view.ndim == 0 ? 0 : view.dtype.bits / 8u;
      for (const int64_t length : result.shapes[i]) bytes *= static_cast<size_t>(length);
      if (bytes > 0) view.data = buffer(list[i], bytes, shared);
      result.views.push_back(view);
    }
    return result;
  }

  static kl_problem describe(int operation, const Tensors& inputs, const Tensors& outputs,
                             const std::vector<double>& scalars) {
    kl_problem problem{};
    problem.operation = operation;
    problem.input_count = static_cast<int32_t>(inputs.views.size());
    problem.output_count = static_cast<int32_t>(outputs.views.size());
    problem.scalar_count = static_cast<int32_t>(scalars.size());
    problem.inputs = inputs.views.data();
    problem.outputs = outputs.views.data();
    problem.scalars = scalars.data();
    problem.threads = 2;
    return problem;
  }

  const kl_kernel_table& table_;
  std::string blob_;
  std::map<std::string, Buffer> buffers_;
  kl_services services_{sizeof(kl_services), 0,
                        [](char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                           const float*, int64_t, float, float*, int64_t) {
                          return kl_result{KL_UNSUPPORTED, nullptr};
                        }};
};

int run(const char* library, const char* cases, const char* blob) {
  const auto plan = kl::read_json_file(cases);
  const auto content = kl::read_file(blob);
  if (!plan.ok() || !content.ok()) return 1;
  auto loaded = kl::KernelLibrary::load(library, (*plan)["target"].get<std::string>());
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.error().what.c_str());
    return 1;
  }
  const auto* kernel = new kl::KernelLibrary(std::move(loaded).value());  // stays loaded: see main
  Runner runner(kernel->table(), *content);
  for (const auto& item : (*plan)["cases"])
    if (runner.run_case(item) != 0) return 1;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: kernel-lab-sanitizer LIBRARY CASES.json CASES.bin\n");
    return 2;
  }
  // Without the destructors: unloading a kernel would pull the OpenMP run-time from under its
  // threads.
  std::_Exit(run(argv[1], argv[2], argv[3]));
}
