// The part of the CUDA driver that the engine uses, on the host: one thread per stream.
#include "emulated_driver.hpp"

#include <cuda.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using Work = std::function<void()>;

struct CUgraph_st {
  std::vector<Work> nodes;
};
struct CUgraphExec_st {
  std::vector<Work> nodes;
};
struct CUevent_st {
  std::atomic<int64_t> at_ns{0};
  std::atomic<bool> passed{true};
};
struct CUfunc_st {
  std::string name;
};

namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

struct CUstream_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool running = false;
  CUgraph_st* capture = nullptr;
  bool capture_broken = false;

  CUstream_st() {
    std::thread([this] {
      ::pthread_setname_np(::pthread_self(), "cuda-emulated");
      std::unique_lock lock(mutex);
      for (;;) {
        changed.wait(lock, [this] { return !queue.empty(); });
        const Work work = std::move(queue.front());
        queue.pop_front();
        running = true;
        lock.unlock();
        work();
        lock.lock();
        running = false;
        changed.notify_all();
      }
    }).detach();
  }
  void put(Work work) {
    const std::lock_guard lock(mutex);
    if (capture != nullptr) {
      capture->nodes.push_back(std::move(work));
      return;
    }
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex);
    return queue.empty() && !running;
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return queue.empty() && !running; });
  }
};

namespace {

std::mutex streams_mutex;
std::vector<CUstream_st*> streams;

CUstream_st* new_stream() {
  auto* stream = new CUstream_st;
  const std::lock_guard lock(streams_mutex);
  streams.push_back(stream);
  return stream;
}
CUstream_st* legacy() {
  static CUstream_st* stream = new_stream();
  return stream;
}
CUstream_st* at(CUstream stream) { return stream == nullptr ? legacy() : stream; }

template <class T>
T argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

template <class T>
void drawn(CUdeviceptr to, CUdeviceptr pool, uint64_t n, uint64_t rotation, const std::function<T(T)>& product) {
  auto* out = reinterpret_cast<T*>(to);
  const auto* in = reinterpret_cast<const T*>(pool);
  for (uint64_t i = 0; i < n; ++i) out[i] = product(in[(i + rotation) % n]);
}
template <class T>
void differs(CUdeviceptr got, CUdeviceptr pool, uint64_t n, uint64_t rotation, CUdeviceptr result,
             const std::function<T(T)>& product) {
  auto* found = reinterpret_cast<unsigned long long*>(result);
  const auto* a = reinterpret_cast<const T*>(got);
  const auto* b = reinterpret_cast<const T*>(pool);
  for (uint64_t i = 0; i < n; ++i) {
    const T expected = product(b[(i + rotation) % n]);
    if (std::memcmp(a + i, &expected, sizeof(T)) == 0) continue;
    if (found[0]++ == 0) found[1] = i;
  }
}

// The kernels of device_code.cu that the worker's side uses, by name.
Work kernel(const std::string& name, void** a) {
  const auto pointer = [&](int i) { return argument<CUdeviceptr>(a, i); };
  const auto word = [&](int i) { return argument<uint64_t>(a, i); };
  if (name == "kl_gate") {
    auto* open = reinterpret_cast<volatile uint32_t*>(pointer(0));
    auto* gave_up = reinterpret_cast<volatile uint32_t*>(pointer(1));
    const auto ticket = argument<uint32_t>(a, 2);
    const auto timeout = static_cast<int64_t>(word(3));
    return [=] {
      const int64_t begin = now_ns();
      while (*open != ticket) {
        if (now_ns() - begin > timeout) {
          *gave_up = ticket;
          return;
        }
        std::this_thread::yield();
      }
    };
  }
  if (name == "kl_empty") return [] {};
  if (name == "kl_spin") {
    return [ns = static_cast<int64_t>(word(0))] {
      const int64_t begin = now_ns();
      while (now_ns() - begin < ns) {
      }
    };
  }
  if (name == "kl_fill") {
    return [to = pointer(0), bytes = word(1), unit = word(2)] {
      for (uint64_t i = 0; i < bytes; ++i) reinterpret_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(unit >> (8 * (i % 8)));
    };
  }
  if (name == "kl_zone") {
    return [zone = pointer(0), bytes = word(1), canary = argument<uint32_t>(a, 2), result = pointer(3)] {
      auto* found = reinterpret_cast<unsigned long long*>(result);
      for (uint64_t i = 0; i < bytes; ++i)
        if (reinterpret_cast<uint8_t*>(zone)[i] != canary && found[0]++ == 0) found[1] = i;
    };
  }
  const auto factor = [&] { return static_cast<float>(argument<double>(a, 4)); };
  if (name == "kl_draw_f32")
    return [to = pointer(0), pool = pointer(1), n = word(2), r = word(3), f = factor()] {
      drawn<float>(to, pool, n, r, [f](float v) { return v * f; });
    };
  if (name == "kl_move_32")
    return [to = pointer(0), pool = pointer(1), n = word(2), r = word(3)] {
      drawn<uint32_t>(to, pool, n, r, [](uint32_t v) { return v; });
    };
  if (name == "kl_differs_f32")
    return [got = pointer(0), pool = pointer(1), n = word(2), r = word(3), f = factor(), result = pointer(5)] {
      differs<float>(got, pool, n, r, result, [f](float v) { return v * f; });
    };
  if (name == "kl_differs_32")
    return [got = pointer(0), pool = pointer(1), n = word(2), r = word(3), result = pointer(5)] {
      differs<uint32_t>(got, pool, n, r, result, [](uint32_t v) { return v; });
    };
  if (name == "kl_differs_8")
    return [got = pointer(0), pool = pointer(1), n = word(2), r = word(3), result = pointer(5)] {
      differs<uint8_t>(got, pool, n, r, result, [](uint8_t v) { return v; });
    };
  return nullptr;
}

std::atomic<size_t> set_aside{0}, window{0};  // of the cache, for lines that ask to stay

bool is_capturing(CUstream stream) {
  const std::lock_guard lock(at(stream)->mutex);
  return at(stream)->capture != nullptr;
}

}  // namespace

extern "C" {

void emulated_launch(void* stream, void (*work)(void*), const void* argument, size_t bytes) {
  std::vector<char> copy(static_cast<const char*>(argument), static_cast<const char*>(argument) + bytes);
  at(static_cast<CUstream>(stream))->put([work, copy]() mutable { work(copy.data()); });
}
void emulated_pin_cache(size_t set_aside_bytes, size_t window_bytes) {
  set_aside = set_aside_bytes;
  window = window_bytes;
}
void* emulated_other_stream() { return new_stream(); }
void emulated_synchronize(void* stream) {
  auto* s = at(static_cast<CUstream>(stream));
  if (is_capturing(s)) {
    s->capture_broken = true;
    return;
  }
  s->wait();
}
void emulated_refused_launch(void* stream) {
  auto* s = at(static_cast<CUstream>(stream));
  const std::lock_guard lock(s->mutex);
  s->capture_broken = true;
}

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return *version = CUDA_VERSION, CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char** text) { return *text = "EMULATED_ERROR", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) { return *text = "of the emulated driver", CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int) { return *device = 0, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* text, int length, CUdevice) {
  std::strncpy(text, "emulated", static_cast<size_t>(length));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* text, int, CUdevice) { return std::strcpy(text, "0000:00:00.0"), CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) { return *bytes = size_t{1} << 30, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(8);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxSynchronize() {
  std::vector<CUstream_st*> all;
  {
    const std::lock_guard lock(streams_mutex);
    all = streams;
  }
  for (auto* stream : all) stream->wait();
  return CUDA_SUCCESS;
}
CUresult cuCtxResetPersistingL2Cache() { return CUDA_SUCCESS; }
CUresult cuCtxGetLimit(size_t* value, CUlimit) { return *value = set_aside, CUDA_SUCCESS; }
CUresult cuStreamGetAttribute(CUstream, CUstreamAttrID, CUstreamAttrValue* value) {
  *value = {};
  value->accessPolicyWindow.num_bytes = window;
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void*) {
  *module = reinterpret_cast<CUmodule>(8);
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = new CUfunc_st{name};
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream stream, void** arguments, void**) {
  Work work = kernel(function->name, arguments);
  if (!work) return CUDA_ERROR_NOT_FOUND;
  at(stream)->put(std::move(work));
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* at_device, size_t bytes) {
  if (bytes > size_t{1} << 30) return CUDA_ERROR_OUT_OF_MEMORY;
  *at_device = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p) { return std::free(reinterpret_cast<void*>(p)), CUDA_SUCCESS; }
CUresult cuMemGetInfo(size_t* free_bytes, size_t* total) { return *free_bytes = *total = size_t{1} << 30, CUDA_SUCCESS; }
CUresult cuMemHostAlloc(void** p, size_t bytes, unsigned) { return *p = std::malloc(bytes), CUDA_SUCCESS; }
CUresult cuMemFreeHost(void* p) { return std::free(p), CUDA_SUCCESS; }
CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  at(stream)->put([=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  at(stream)->put([=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  at(stream)->put([=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  at(stream)->put([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) { return *stream = new_stream(), CUDA_SUCCESS; }
CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream stream) { return at(stream)->wait(), CUDA_SUCCESS; }
CUresult cuStreamQuery(CUstream stream) { return at(stream)->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  const std::lock_guard lock(stream->mutex);
  stream->capture = new CUgraph_st;
  stream->capture_broken = false;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const std::lock_guard lock(stream->mutex);
  *graph = stream->capture_broken ? nullptr : stream->capture;
  stream->capture = nullptr;
  return stream->capture_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = is_capturing(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned) { return *event = new CUevent_st, CUDA_SUCCESS; }
CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent event, CUstream stream) {
  event->passed = false;
  at(stream)->put([event] {
    event->at_ns = now_ns();
    event->passed = true;
  });
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) { return event->passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult cuEventSynchronize(CUevent event) {
  while (!event->passed) std::this_thread::yield();
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float* ms, CUevent begin, CUevent end) {
  *ms = static_cast<float>(static_cast<double>(end->at_ns - begin->at_ns) * 1e-6);
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->nodes};
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  for (const Work& node : exec->nodes) at(stream)->put(node);
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode*, size_t* count) { return *count = graph->nodes.size(), CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph graph) { return delete graph, CUDA_SUCCESS; }
CUresult cuGraphExecDestroy(CUgraphExec exec) { return delete exec, CUDA_SUCCESS; }
CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }

}  // extern "C"
