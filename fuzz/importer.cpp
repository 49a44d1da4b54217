// Any bytes at all: a model that can be summarised, or an error with its cause and its remedy.
#include <lab/core/files.hpp>
#include <lab/trace/import/import.hpp>
#include <lab/trace/summary.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace {

using namespace kl;

Result<trace::TraceModel> read(const fs::path& path) {
#if defined(KL_FUZZED_kineto)
  return trace::read_kineto(path);
#elif defined(KL_FUZZED_rocprof_json)
  return trace::read_rocprof_json(path);
#elif defined(KL_FUZZED_rocprof_csv)
  return trace::read_rocprof_csv(path);
#elif defined(KL_FUZZED_nsys_stats)
  return trace::read_nsys_stats(path);
#elif defined(KL_FUZZED_ncu_csv)
  return trace::read_ncu_csv(path);
#else
  return trace::read_trace(path);  // which of the three its tables say
#endif
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const int file = memfd_create("input", 0);
  if (file < 0 || write(file, bytes, size) != static_cast<ssize_t>(size)) std::abort();
  const auto model = read("/proc/self/fd/" + std::to_string(file));
  close(file);
  if (model.ok()) trace::summarise(*model, true);
  else if (model.error().what.empty() || model.error().remedy.empty()) std::abort();
  return 0;
}
