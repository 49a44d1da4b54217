#include <host.hpp>

#include <cache_flush.hpp>
#include <candidate_thread.hpp>
#include <confinement.hpp>
#include <floating_point.hpp>
#include <host_clock.hpp>
#include <prepared_call.hpp>
#include <stale_stack.hpp>

#include <lab/build/loader.hpp>
#include <lab/engine/engine.hpp>
#include <lab/services/services.hpp>
#include <lab/worker/call_wire.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>

extern char** environ;

namespace kl {
namespace {

using namespace protocol;

uint64_t environment_hash() {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    for (const char* c = *entry;; ++c) {
      hash = (hash ^ static_cast<unsigned char>(*c)) * 1099511628211u;
      if (*c == '\0') break;
    }
  return hash;
}

// Address space without memory behind it, aligned to its own size; 0 when there is none left.
uint64_t reserve_arena() {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* space = ::mmap(nullptr, 2 * kArenaBytes, PROT_NONE, kFlags, -1, 0);
  if (space == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<uint64_t>(space);
  const uint64_t arena = (begin + kArenaBytes - 1) & ~(kArenaBytes - 1);
  if (arena > begin) ::munmap(space, arena - begin);
  if (const uint64_t rest = begin + kArenaBytes - arena; rest > 0)
    ::munmap(reinterpret_cast<void*>(arena + kArenaBytes), rest);
  return arena;
}

// A loaded library and what it may borrow.
struct Arm {
  KernelLibrary library;
  const kl_services& services;
};

class Host {
 public:
  Host(const Channel& channel, StatusPage& status) : channel_(channel), status_(status) {}

  int serve() {
    std::vector<char> message;
    int descriptor = -1;
    while (channel_.receive(message, descriptor)) {
      Reader reader(message);
      const auto header = reader.get<Header>();
      Writer reply(Header{header.kind, 0, header.token});
      const std::string failure = dispatch(static_cast<Kind>(header.kind), reader, descriptor, reply);
      if (descriptor >= 0) ::close(descriptor);
      status_.phase = static_cast<uint32_t>(Phase::idle);
      const bool sent =
          failure.empty()
              ? channel_.send(reply.bytes())
              : channel_.send(Writer(Header{header.kind, 1, header.token}).put_text(failure).bytes());
      if (!sent) break;
    }
    status_.stopped_by_host = 1;
    return 0;
  }

 private:
  // Empty when it worked, else what went wrong.
  std::string dispatch(Kind kind, Reader& in, int descriptor, Writer& out) {
    if (kind != Kind::hello && candidate_ == nullptr) return "spoken to before hello";
    switch (kind) {
      case Kind::hello: return hello(in, out);
      case Kind::load: return load(in, out);
      case Kind::map: return map(in, descriptor, out);
      case Kind::clear: return clear(out);
      case Kind::domain: return domain(in, out);
      case Kind::prepare: return prepare(in, out);
      case Kind::run: return run(in, out);
      case Kind::flush: return flush(out);
      case Kind::inspect: return inspect(out);
      default: break;
    }
    if (device_ != nullptr) return on_device(kind, in, out);
    return fmt::format("request {} is not known", static_cast<uint32_t>(kind));
  }

  std::string on_candidate(Phase phase, const std::function<void()>& job) {
    status_.phase = static_cast<uint32_t>(phase);
    return candidate_->call(job);
  }

  bool parent_is_there() const {
    pollfd p{channel_.fd(), POLLRDHUP, 0};
    return ::poll(&p, 1, 0) <= 0 || (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
  }

  std::string hello(Reader& in, Writer& out) {
    const auto request = in.get<Hello>();
    if (!in.ok() || request.version != kVersion || candidate_ != nullptr)
      return fmt::format("hello of version {}, this worker speaks {}", request.version, kVersion);
    const std::string device = in.get_text();
    threads_ = request.threads;
    HelloReply reply;
    reply.arena = reserve_arena();
    if (reply.arena == 0) return "no address space left for the shared buffers";
    arena_ = reply.arena;
    control_ = floating_point_control();
    flush_.emplace(request.flush_bytes, threads_);
    // The driver's files, threads and mappings come first: confinement is for what follows.
    if (auto fault = open_device(device)) {
      put_fault(out.put(reply), std::move(fault));
      return {};
    }
    const bool for_device = device_ != nullptr;
    if (!for_device) make_services_ready(threads_);
    reply.no_new_privs = forbid_new_privileges();
    reply.landlock = forbid_writing_files(for_device);
    reply.seccomp = filter_process(for_device);
    candidate_ = std::make_unique<CandidateThread>(threads_, arena_, for_device, [this] { return parent_is_there(); });
    reply.memory_locked = candidate_->filtered();
    reply.candidate_thread = candidate_->thread_id();
    if (!limit_resources(request.memory_bytes, for_device)) return "the memory limit could not be set";
    environment_ = environment_hash();
    std::optional<DeviceFault> fault;
    if (for_device) candidate_->call([&] { fault = device_->enter_thread(); });
    put_fault(out.put(reply), std::move(fault));
    if (for_device) out.put_text(relaxed(reply));
    return {};
  }

  std::optional<DeviceFault> open_device(const std::string& name) {
    if (name.empty()) return std::nullopt;
    const auto refused = [](const Error& error) {
      return DeviceFault{error.status, "device", error.what + (error.remedy.empty() ? "" : "; " + error.remedy), true};
    };
    const auto engine = find_engine(name);
    if (!engine.ok()) return refused(engine.error());
    auto opened = (*engine)->open_device_host();
    if (!opened.ok()) return refused(opened.error());
    device_ = std::move(*opened);
    return std::nullopt;
  }

  static std::string relaxed(const HelloReply& reply) {
    return fmt::format("for the device's driver: its files may be written{}, its threads placed, memory mapped, "
                       "protected and bound without limit",
                       reply.landlock != 0 ? "" : ", and without Landlock every other file that permissions allow");
  }

  static void put_fault(Writer& out, std::optional<DeviceFault> fault) {
    if (!fault) {
      out.put(WireFault{}).put_text("").put_text("");
      return;
    }
    out.put(WireFault{1, static_cast<uint32_t>(fault->status), fault->fatal}).put_text(fault->rule).put_text(fault->proof);
  }

  std::string load(Reader& in, Writer& out) {
    const std::string path = in.get_text();
    const std::string target = in.get_text();
    std::vector<std::string> listed(in.get<uint32_t>());
    for (std::string& service : listed) service = in.get_text();
    if (!in.ok()) return "load: not understood";
    std::string failure;
    const std::string thrown = on_candidate(Phase::load, [&] {
      auto library = KernelLibrary::load(path, target);
      if (library.ok())
        arms_.push_back({std::move(*library), services(listed)});
      else
        failure = fmt::format("{}; {}", library.error().what, library.error().remedy);
    });
    out.put(static_cast<int32_t>(arms_.size()) - 1);
    return thrown.empty() ? failure : "the library's constructors threw: " + thrown;
  }

  std::string map(Reader& in, int descriptor, Writer& out) {
    const auto request = in.get<Map>();
    if (!in.ok() || descriptor < 0 || request.address < arena_ + kArenaMargin ||
        request.address + request.bytes > arena_ + kArenaBytes)
      return fmt::format("a buffer of {} bytes does not fit at {:#x}", request.bytes, request.address);
    // Pages are brought in now, for writing where they will be written, so that no call pays for it.
    void* at = ::mmap(reinterpret_cast<void*>(request.address), request.bytes,
                      request.written != 0 ? PROT_READ | PROT_WRITE : PROT_READ,
                      MAP_SHARED | MAP_FIXED | (device_ == nullptr ? MAP_POPULATE : 0), descriptor, 0);
    if (at == MAP_FAILED || (request.locked != 0 && ::mprotect(at, request.bytes, PROT_READ) != 0))
      return fmt::format("mapping {} bytes failed: errno {}", request.bytes, errno);
    if (device_ == nullptr) return {};
    return on_device_thread(out, [&] {
      buffers_[request.data_address] = request.buffer;
      return device_->add(request.buffer, static_cast<MirrorRole>(request.role),
                          reinterpret_cast<std::byte*>(request.data_address), request.data_bytes);
    });
  }

  std::string clear(Writer& out) {
    calls_.clear();
    buffers_.clear();
    if (device_ != nullptr) on_device_thread(out, [&] { return device_->clear(); });
    void* at = ::mmap(reinterpret_cast<void*>(arena_), kArenaBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return at == MAP_FAILED ? "the shared buffers could not be unmapped" : std::string();
  }

  std::string domain(Reader& in, Writer& out) {
    const auto arm = in.get<int32_t>();
    const PreparedCall call = bind(get_call(in));
    if (!in.ok() || !is_arm(arm)) return fmt::format("domain of arm {}: not understood", arm);
    int32_t code = 0;
    std::string text;
    uint64_t scratch = 0, saved = 0;
    const kl_problem problem = call.problem();
    const kl_kernel_table& table = arms_[static_cast<size_t>(arm)].library.table();
    const std::string thrown = on_candidate(Phase::domain, [&] {
      const kl_result result = table.accepts(&problem);
      code = result.code;
      if (result.text != nullptr) text = result.text;
      if (code != KL_OK) return;
      scratch = table.scratch_bytes(&problem);
      if (problem.operation == KL_FORWARD) saved = table.saved_bytes(&problem);
    });
    out.put(code).put(scratch).put(saved).put_text(text).put_text(thrown);
    return {};
  }

  std::string prepare(Reader& in, Writer& out) {
    const auto arm = in.get<int32_t>();
    PreparedCall call = bind(get_call(in));
    if (!in.ok() || !is_arm(arm)) return fmt::format("prepare of arm {}: not understood", arm);
    int32_t code = 0;
    std::string text;
    const kl_problem problem = call.problem();
    const Arm& lent = arms_[static_cast<size_t>(arm)];
    call.table = &lent.library.table();
    const std::string thrown = on_candidate(Phase::prepare, [&] {
      const kl_result result = call.table->prepare(&problem, &lent.services, call.plan());
      code = result.code;
      if (result.text != nullptr) text = result.text;
    });
    call.keep();
    calls_.push_back(std::move(call));
    out.put(static_cast<int32_t>(calls_.size()) - 1).put(code).put_text(text).put_text(thrown);
    return {};
  }

  std::string run(Reader& in, Writer& out) {
    const auto index = in.get<int32_t>();
    const auto stale = in.get<uint32_t>();
    if (!in.ok() || !is_call(index)) return fmt::format("run of call {}: not prepared", index);
    PreparedCall& call = calls_[static_cast<size_t>(index)];
    if (device_ != nullptr) return run_on_device(index, call, false, out);
    RunReply reply;
    std::string text;
    reply.protection_ns += protect(call.writable(), PROT_READ | PROT_WRITE);
    const kl_call arguments = call.arguments();
    reply.control_before = control_;
    const std::string thrown = on_candidate(Phase::run, [&] {
      if (stale != 0) overwrite_stack_below(stale);
      set_floating_point_control(control_);
      reply.begin_ns = clock_by_syscall_ns(CLOCK_MONOTONIC);
      try {
        const kl_result result = call.table->run(call.plan(), &arguments, nullptr);
        finish(reply);
        reply.code = result.code;
        if (result.text != nullptr) text = result.text;
      } catch (...) {
        finish(reply);
        throw;
      }
    });
    reply.protection_ns += protect(call.writable(), PROT_READ);
    reply.threw = !thrown.empty();
    reply.plan_written = !call.is_as_kept();
    out.put(reply).put_text(text).put_text(thrown);
    return {};
  }

  // A call with its tensors where they are: at addresses of the device, where there is one.
  PreparedCall bind(WireCall call) {
    if (device_ == nullptr) return PreparedCall(std::move(call), threads_);
    std::vector<int> bound;
    const auto move = [&](uint64_t& address) {
      const auto found = buffers_.find(address);
      if (address == 0 || found == buffers_.end()) return;
      bound.push_back(found->second);
      address = reinterpret_cast<uint64_t>(device_->address(found->second));
    };
    for (auto* tensors : {&call.inputs, &call.outputs})
      for (WireTensor& tensor : *tensors) move(tensor.address);
    move(call.saved);
    move(call.scratch);
    std::sort(bound.begin(), bound.end());
    bound.erase(std::unique(bound.begin(), bound.end()), bound.end());
    return PreparedCall(std::move(call), 0, device_->device(), std::move(bound));
  }

  // The launch runs `run` as on the host, and the device's side does everything around it.
  std::string run_on_device(int32_t index, PreparedCall& call, bool timed, Writer& out) {
    RunReply reply;
    std::string text, thrown;
    reply.control_before = reply.control_after = control_;
    const kl_call arguments = call.arguments();
    const DeviceHost::Launch launch = [&](void* stream) {
      set_floating_point_control(control_);
      int32_t code = KL_INTERNAL;
      try {
        const kl_result result = call.table->run(call.plan(), &arguments, stream);
        code = result.code;
        text = result.text == nullptr ? "" : result.text;
      } catch (const std::exception& e) {
        thrown = *e.what() == '\0' ? "an exception without a message" : e.what();
      } catch (...) {
        thrown = "something that is not a std::exception";
      }
      if (const uint64_t control = floating_point_control(); control != control_) {
        reply.control_after = control;
        set_floating_point_control(control_);
      }
      return code;
    };
    OrDeviceFault<DeviceRun> ran = DeviceRun{};
    on_candidate(Phase::run, [&] {
      reply.begin_ns = clock_by_syscall_ns(CLOCK_MONOTONIC);
      ran = timed ? device_->run_timed(index, true, launch) : device_->run(call.buffers(), launch);
      reply.end_ns = clock_by_syscall_ns(CLOCK_MONOTONIC);
    });
    reply.threw = !thrown.empty();
    reply.plan_written = !call.is_as_kept();
    if (const auto* done = std::get_if<DeviceRun>(&ran)) {
      reply.code = done->code;
      reply.span_ns = done->span_ns;
      reply.bracket_ns = done->bracket_ns;
      reply.graph_nodes = done->graph_nodes;
      reply.replay_differs_bytes = done->replay_differs_bytes;
      put_fault(out, std::nullopt);
    } else {
      put_fault(out, std::get<DeviceFault>(ran));
    }
    out.put(reply).put_text(text).put_text(thrown);
    return {};
  }

  std::string on_device_thread(Writer& out, const std::function<std::optional<DeviceFault>()>& job) {
    std::optional<DeviceFault> fault;
    candidate_->call([&] { fault = job(); });
    put_fault(out, std::move(fault));
    return {};
  }

  std::string on_device(Kind kind, Reader& in, Writer& out) {
    switch (kind) {
      case Kind::run_timed: {
        const auto index = in.get<int32_t>();
        if (!in.ok() || !is_call(index)) return fmt::format("run of call {}: not prepared", index);
        return run_on_device(index, calls_[static_cast<size_t>(index)], true, out);
      }
      case Kind::check_after: {
        const auto index = in.get<int32_t>();
        if (!in.ok() || !is_call(index)) return fmt::format("check of call {}: not prepared", index);
        return on_device_thread(out, [&] { return device_->check_after(calls_[static_cast<size_t>(index)].buffers()); });
      }
      case Kind::keep_pool: {
        const auto pool = in.get<PoolOf>();
        return on_device_thread(out, [&] { return device_->keep_pool(pool.buffer, pool.dtype); });
      }
      case Kind::draw: {
        const auto draw = in.get<DrawOf>();
        return on_device_thread(out, [&] { return device_->draw(draw.buffer, draw.rotation, draw.factor); });
      }
      case Kind::fill: {
        const auto fill = in.get<FillOf>();
        const std::span<const std::byte> unit(reinterpret_cast<const std::byte*>(&fill.unit),
                                              std::min<size_t>(fill.unit_bytes, sizeof fill.unit));
        return on_device_thread(out, [&] { return device_->fill(fill.buffer, unit); });
      }
      case Kind::fetch: {
        const auto part = in.get<PartOf>();
        return on_device_thread(out, [&] { return device_->fetch(part.buffer, part.offset, part.bytes); });
      }
      case Kind::fetch_replay: {
        const auto part = in.get<PartOf>();
        return on_device_thread(out, [&] { return device_->fetch_replay(part.buffer); });
      }
      default: return fmt::format("request {} is not known", static_cast<uint32_t>(kind));
    }
  }

  void finish(RunReply& reply) const {
    reply.end_ns = clock_by_syscall_ns(CLOCK_MONOTONIC);
    reply.control_after = floating_point_control();
    set_floating_point_control(control_);
  }

  // Returns the processor time it took.
  static int64_t protect(const std::vector<Range>& ranges, int protection) {
    const int64_t begin = clock_by_syscall_ns(CLOCK_THREAD_CPUTIME_ID);
    for (const Range& r : ranges) ::mprotect(reinterpret_cast<void*>(r.address), r.bytes, protection);
    return clock_by_syscall_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
  }

  std::string flush(Writer& out) {
    status_.phase = static_cast<uint32_t>(Phase::flush);
    if (device_ != nullptr) return on_device_thread(out, [&] { return device_->flush(); });
    flush_->run(*candidate_);
    return {};
  }

  std::string inspect(Writer& out) {
    status_.phase = static_cast<uint32_t>(Phase::inspect);
    std::atomic<uint64_t> found{control_};
    std::atomic<int32_t> threads{0};
    candidate_->on_pool([&](int) {
      ++threads;
      const uint64_t control = floating_point_control();
      if (control == control_) return;
      found = control;
      set_floating_point_control(control_);
    });
    out.put(InspectReply{control_, found, threads, environment_hash() != environment_});
    return {};
  }

  bool is_call(int32_t index) const { return index >= 0 && static_cast<size_t>(index) < calls_.size(); }
  bool is_arm(int32_t arm) const { return arm >= 0 && static_cast<size_t>(arm) < arms_.size(); }

  const Channel& channel_;
  StatusPage& status_;
  std::unique_ptr<CandidateThread> candidate_;
  std::optional<CacheFlush> flush_;
  std::unique_ptr<DeviceHost> device_;    // null: calls see the host's memory
  std::map<uint64_t, int> buffers_;       // address in the arena → buffer, where there is a device
  std::vector<Arm> arms_;
  std::deque<PreparedCall> calls_;  // addresses inside stay valid as it grows
  int threads_ = 1;
  uint64_t arena_ = 0;
  uint64_t control_ = 0;  // what a thread's floating-point control state has to be
  uint64_t environment_ = 0;
};

}  // namespace

int host_candidates(const Channel& channel, StatusPage& status) { return Host(channel, status).serve(); }

}  // namespace kl
