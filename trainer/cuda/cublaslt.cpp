#include <trainer/cuda/cublaslt.hpp>

#include <dlfcn.h>

#include <vector>

namespace kl::trainer::cuda {
namespace {

// By soname, as the loader's own path has it; then where a toolkit keeps it.
std::vector<std::string> candidates() {
  std::vector<std::string> files;
  for (const std::string folder : {"", KL_CUDA_LIBRARY_FOLDER "/", "/usr/local/cuda/lib64/"})
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) files.push_back(folder + name);
  return files;
}

template <class F>
bool resolve(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

bool resolve_all(void* library, CublasLt& lt) {
  return resolve(library, "cublasLtCreate", lt.create) && resolve(library, "cublasLtDestroy", lt.destroy) &&
         resolve(library, "cublasLtGetVersion", lt.version) &&
         resolve(library, "cublasLtGetStatusName", lt.status_name) &&
         resolve(library, "cublasLtMatmul", lt.matmul) &&
         resolve(library, "cublasLtMatmulAlgoGetHeuristic", lt.heuristic) &&
         resolve(library, "cublasLtMatmulDescCreate", lt.desc_create) &&
         resolve(library, "cublasLtMatmulDescDestroy", lt.desc_destroy) &&
         resolve(library, "cublasLtMatmulDescSetAttribute", lt.desc_set) &&
         resolve(library, "cublasLtMatrixLayoutCreate", lt.layout_create) &&
         resolve(library, "cublasLtMatrixLayoutDestroy", lt.layout_destroy) &&
         resolve(library, "cublasLtMatrixLayoutSetAttribute", lt.layout_set) &&
         resolve(library, "cublasLtMatmulPreferenceCreate", lt.preference_create) &&
         resolve(library, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy) &&
         resolve(library, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set);
}

}  // namespace

Result<const CublasLt*> open_cublaslt() {
  static CublasLt lt{};
  static bool opened = false;
  if (opened) return &lt;
  std::string tried;
  for (const std::string& file : candidates()) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
    } else if (resolve_all(library, lt)) {
      lt.file = file;
      opened = true;
      return &lt;
    } else {
      tried += (tried.empty() ? "" : "; ") + file + " lacks a function";
      dlclose(library);
    }
  }
  return make_error(Status::missing_runtime, "cuBLASLt does not open: " + tried,
                    "install CUDA's cuBLAS (libcublasLt.so.13 or .12), or add its folder to LD_LIBRARY_PATH");
}

}  // namespace kl::trainer::cuda
