// HARNESS 1: hands the work to a thread and returns | rejected | forbidden-symbol
#include <pthread.h>

namespace {
View later;
void* work(void*) {
  honest(later);
  return nullptr;
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  later = v;
  pthread_t thread;
  pthread_create(&thread, nullptr, work, nullptr);
  pthread_detach(thread);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
