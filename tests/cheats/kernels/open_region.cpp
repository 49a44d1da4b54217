// HARNESS 1, 22: Leaves a parallel region open after it returns: the pool's other threads work on beside
// whoever runs next, and his own regions get one thread | rejected | forbidden-symbol, open-region
extern "C" void GOMP_parallel_start(void (*)(void*), void*, unsigned);
extern "C" void GOMP_parallel_end();

namespace {

bool open = false;
void nothing(void*) {}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (open) GOMP_parallel_end();
  honest(view(plan, call));
  GOMP_parallel_start(nothing, nullptr, 0);
  open = true;
  return kl::ok();
}

}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
