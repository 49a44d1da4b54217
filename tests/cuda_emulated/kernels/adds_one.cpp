// y = x + 1 on the emulated device. The first scalar chooses what is wrong with it.
#include "../emulated_driver.hpp"

#include <kernel_lab/kernel.hpp>

#include <chrono>
#include <thread>

namespace {

enum Fault { kHonest, kOtherStream, kLegacyStream, kLate, kWritesAfter, kWritesBefore, kWritesInput, kWaits, kNothing,
             kThrows, kScratch, kUnsteady, kErrorCode, kRefusedLaunch, kRefusedLaunchAfterOne, kSetsAside, kPinsWindow };

struct Job {
  float* x;
  float* y;
  int64_t n;
  int fault;
  float* scratch;
  int call;
};
int calls = 0;

void work(void* argument) {
  const Job& job = *static_cast<Job*>(argument);
  if (job.fault == kLate) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  for (int64_t i = 0; i < job.n; ++i) job.y[i] = job.x[i] + 1;
  if (job.fault == kUnsteady) job.y[0] = static_cast<float>(job.call);
  if (job.fault == kWritesAfter) job.y[job.n] = 0;
  if (job.fault == kWritesBefore) job.y[-1] = 0;
  if (job.fault == kWritesInput) job.x[3] = -3;
  if (job.scratch != nullptr) job.scratch[job.fault == kScratch ? 64 : 0] = 1;
}

kl_result accepts(const kl_problem*) { return kl::ok(); }
size_t scratch_bytes(const kl_problem*) { return 256; }
size_t no_bytes(const kl_problem*) { return 0; }
kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (p->inputs[0].device.device_type != kDLCUDA || p->threads != 0) return kl::bad_argument("not a device");
  kl::store(plan, p->inputs[0].shape[0]);
  return kl::ok();
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream stream) {
  const auto fault = static_cast<int>(call->scalars[0]);
  const Job job{kl::data<float>(call->inputs[0]), kl::data<float>(call->outputs[0]), kl::plan_as<int64_t>(plan), fault,
                static_cast<float*>(call->scratch), ++calls};
  static void* other = nullptr;
  if (other == nullptr && (fault == kOtherStream || fault == kLate)) other = emulated_other_stream();
  if (fault == kErrorCode) return {KL_LAUNCH_FAILED, "so it is"};
  if (fault == kNothing) return kl::ok();
  if (fault == kRefusedLaunch || fault == kRefusedLaunchAfterOne) {
    if (fault == kRefusedLaunchAfterOne) emulated_launch(stream, work, &job, sizeof job);
    emulated_refused_launch(stream);
    return kl::ok();
  }
  emulated_launch(fault == kLegacyStream ? nullptr : fault == kOtherStream || fault == kLate ? other : stream, work, &job,
                  sizeof job);
  if (fault == kSetsAside || fault == kPinsWindow)
    emulated_pin_cache(fault == kSetsAside ? 4096 : 0, fault == kPinsWindow ? 4096 : 0);
  if (fault == kWaits) emulated_synchronize(stream);
  if (fault == kThrows) throw 1;
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("add_one", accepts, scratch_bytes, no_bytes, prepare, run);
