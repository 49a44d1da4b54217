// Runs a kernel under a sanitizer on exactly sized buffers. It judges nothing: the sanitizer says what
// it saw, and one that is built in ends this process when it objects. Started by `verify --sanitize`.
//   kernel-lab-sanitizer ENGINE LIBRARY CASES.json CASES.bin
#include <lab/build/loader.hpp>
#include <lab/core/files.hpp>
#include <lab/core/json.hpp>
#include <lab/engine/engine.hpp>
#include <lab/services/services.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

// The host's heap. An allocation is exactly as long as asked for, so that the red zone begins at the
// first byte past the end.
class Heap final : public kl::PlainDevice {
 public:
  ~Heap() override { free_all(); }
  DLDevice device() const override { return {kDLCPU, 0}; }
  void* stream() const override { return nullptr; }
  kl::Result<void*> allocate(size_t bytes) override {
    void* p = nullptr;
    if (bytes > 0 && posix_memalign(&p, 64, bytes) != 0)
      return kl::make_error(kl::Status::error, "out of memory", "free some");
    if (p != nullptr) held_.push_back(p);
    return p;
  }
  kl::Outcome upload(void* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
    return {};
  }
  kl::Outcome wait() override { return {}; }
  void free_all() override {
    for (void* p : held_) std::free(p);
    held_.clear();
  }

 private:
  std::vector<void*> held_;
};

struct Tensors {
  std::vector<DLTensor> views;
  std::vector<std::vector<int64_t>> shapes;
};

class Runner {
 public:
  Runner(const kl_kernel_table& table, std::string blob, kl::PlainDevice& device, const kl_services& services)
      : table_(table), blob_(std::move(blob)), device_(device), services_(services) {}

  // Forward and backward of one case; a kernel that declines a shape is not run on it.
  kl::Outcome run_case(const kl::Json& item) {
    device_.free_all();
    buffers_.clear();
    void* saved = nullptr;
    for (const auto& operation : item["operations"]) {
      KL_TRY(Tensors inputs, tensors(operation["inputs"], true));
      KL_TRY(Tensors outputs, tensors(operation["outputs"], false));
      const auto scalars = operation["scalars"].get<std::vector<double>>();
      const kl_problem problem = describe(operation["index"].get<int>(), inputs, outputs, scalars);
      if (table_.accepts(&problem).code != KL_OK) return {};
      if (problem.operation == KL_FORWARD) {
        KL_TRY(saved, device_.allocate(table_.saved_bytes(&problem)));
      }
      KL_TRY(void* const scratch, device_.allocate(table_.scratch_bytes(&problem)));
      kl_plan plan{};
      KL_CHECK(done("prepare", table_.prepare(&problem, &services_, &plan)));
      const kl_call call{inputs.views.data(), outputs.views.data(), scalars.data(), saved, scratch};
      KL_CHECK(done("run", table_.run(&plan, &call, device_.stream())));
      KL_CHECK(device_.wait());
    }
    return {};
  }

 private:
  static kl::Outcome done(const std::string& step, const kl_result& result) {
    if (result.code == KL_OK) return {};
    return kl::make_error(kl::Status::execution_failed,
                          step + " returned " + std::to_string(result.code) + ": " +
                              (result.text == nullptr ? "no reason given" : result.text));
  }

  // Inputs of one name are one buffer for both operations.
  kl::Result<void*> buffer(const kl::Json& tensor, size_t bytes, bool shared) {
    const auto name = tensor["name"].get<std::string>();
    const std::string key = shared ? "in " + name : "out " + name + std::to_string(buffers_.size());
    if (const auto held = buffers_.find(key); held != buffers_.end()) return held->second;
    KL_TRY(void* const made, device_.allocate(bytes));
    const auto* from = reinterpret_cast<const std::byte*>(blob_.data()) + tensor["offset"].get<size_t>();
    if (const auto given = tensor["given"].get<size_t>(); given > 0)
      KL_CHECK(device_.upload(made, {from, given}));
    buffers_[key] = made;
    return made;
  }

  kl::Result<Tensors> tensors(const kl::Json& list, bool shared) {
    Tensors result;
    for (const auto& tensor : list)
      result.shapes.push_back(tensor["shape"].get<std::vector<int64_t>>());
    for (size_t i = 0; i < list.size(); ++i) {
      DLTensor view{};
      view.device = device_.device();
      view.dtype = {list[i]["code"].get<uint8_t>(), list[i]["bits"].get<uint8_t>(), 1};
      view.ndim = static_cast<int>(result.shapes[i].size());
      view.shape = result.shapes[i].data();
      size_t bytes = view.ndim == 0 ? 0 : view.dtype.bits / 8u;
      for (const int64_t length : result.shapes[i]) bytes *= static_cast<size_t>(length);
      if (bytes > 0) {
        KL_TRY(view.data, buffer(list[i], bytes, shared));
      }
      result.views.push_back(view);
    }
    return result;
  }

  kl_problem describe(int operation, const Tensors& inputs, const Tensors& outputs,
                      const std::vector<double>& scalars) const {
    kl_problem problem{};
    problem.operation = operation;
    problem.input_count = static_cast<int32_t>(inputs.views.size());
    problem.output_count = static_cast<int32_t>(outputs.views.size());
    problem.scalar_count = static_cast<int32_t>(scalars.size());
    problem.inputs = inputs.views.data();
    problem.outputs = outputs.views.data();
    problem.scalars = scalars.data();
    problem.threads = device_.device().device_type == kDLCPU ? 2 : 0;
    return problem;
  }

  const kl_kernel_table& table_;
  std::string blob_;
  kl::PlainDevice& device_;
  std::map<std::string, void*> buffers_;
  const kl_services& services_;
};

kl::Outcome run(const char* engine_name, const char* library, const char* cases, const char* blob) {
  KL_TRY(const kl::Engine* const engine, kl::find_engine(engine_name));
  KL_TRY(const kl::Json plan, kl::read_json_file(cases));
  KL_TRY(const std::string content, kl::read_file(blob));
  KL_TRY(std::unique_ptr<kl::PlainDevice> device, engine->open_plain_device());
  if (device == nullptr) device = std::make_unique<Heap>();
  KL_TRY(kl::KernelLibrary loaded, kl::KernelLibrary::load(library, plan["target"].get<std::string>()));
  const auto* kernel = new kl::KernelLibrary(std::move(loaded));  // stays loaded: see main
  const auto listed = plan["services"].get<std::vector<std::string>>();
  Runner runner(kernel->table(), content, *device, kl::services(listed));
  for (const auto& item : plan["cases"]) KL_CHECK(runner.run_case(item));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: kernel-lab-sanitizer ENGINE LIBRARY CASES.json CASES.bin\n");
    return 2;
  }
  const kl::Outcome outcome = run(argv[1], argv[2], argv[3], argv[4]);
  if (!outcome.ok())
    std::fprintf(stderr, "%s\n%s\n", outcome.error().what.c_str(), outcome.error().remedy.c_str());
  // Without the destructors: unloading a kernel would pull the OpenMP run-time from under its
  // threads.
  std::fflush(nullptr);
  std::_Exit(outcome.ok() ? 0 : 1);
}
