#include <lab/worker/worker.hpp>

#include <kernel_lab/kernel.h>
#include <lab/core/clock.hpp>
#include <lab/core/fingerprint.hpp>
#include <lab/worker/call_wire.hpp>
#include <lab/worker/clock_check.hpp>
#include <lab/worker/death.hpp>
#include <lab/worker/draw.hpp>
#include <lab/worker/process_view.hpp>
#include <lab/worker/shared_buffers.hpp>
#include <lab/worker/worker_process.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

namespace kl {
namespace {

using namespace protocol;

Fault fault_of(const Error& error, std::string rule) {
  return {error.status == Status::error ? Status::execution_failed : error.status, std::move(rule),
          error.remedy.empty() ? error.what : error.what + "; " + error.remedy};
}

uint64_t random_token() {
  uint64_t token = 0;
  while (::getrandom(&token, sizeof token, 0) != sizeof token) {
  }
  return token;
}

std::vector<int64_t> packed_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t next = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    next *= shape[i];
  }
  return strides;
}

class HostedWorker final : public Worker {
 public:
  HostedWorker(const WorkerLimits& limits, int threads, std::unique_ptr<WorkerProcess> process)
      : limits_(limits), threads_(threads), process_(std::move(process)) {}

  std::optional<Fault> greet();

  const Confinement& confinement() const override { return confinement_; }
  int process_id() const override { return process_->pid(); }
  OrFault<ArmId> load(const std::filesystem::path& library, std::string_view target,
                      std::span<const std::string> services) override;
  OrFault<BufferId> add_buffer(BufferRole role, size_t bytes) override;
  OrFault<std::monostate> drop_buffers() override;
  std::byte* data(BufferId buffer) override { return buffers_.data(buffer); }
  size_t size(BufferId buffer) const override { return buffers_.size(buffer); }
  OrFault<Domain> domain(ArmId arm, const CallBinding& call) override;
  OrFault<CallId> prepare(ArmId arm, const CallBinding& call) override;
  OrFault<CallTiming> run(CallId call) override;
  OrFault<std::monostate> flush_caches() override;
  OrFault<CallTiming> run_timed(CallId call, bool cold) override;
  OrFault<std::monostate> keep_pool(BufferId buffer, DLDataType dtype) override;
  OrFault<std::monostate> draw(BufferId buffer, int64_t rotation, double factor) override;
  OrFault<std::monostate> fill(BufferId buffer, std::span<const std::byte> unit) override;
  OrFault<std::monostate> fetch(BufferId buffer, size_t offset, size_t bytes) override;
  OrFault<std::monostate> fetch_replay(BufferId buffer) override;
  OrFault<Footprint> footprint() override;
  std::string printed() const override {
    process_->drain();  // what was printed just before an answer may still lie in the pipe
    return process_->printed();
  }

 private:
  struct Reply {
    std::vector<char> bytes;  // without the header
    bool failed = false;
    Reader reader() const { return Reader(bytes); }
    std::string text() const { return reader().get_text(); }
  };
  // Takes the device's fault off the front of an answer; a fatal one ends the worker.
  std::optional<Fault> fault_in(Reader& in);
  // For requests that a device alone is asked, and whose answer is nothing but a fault or none.
  OrFault<std::monostate> on_device(const Writer& request);
  bool on_device() const { return !limits_.device.empty(); }
  bool is_drivers(const std::string& what) const;
  static Writer request(Kind kind) { return Writer(Header{static_cast<uint32_t>(kind), 0, random_token()}); }
  OrFault<Reply> exchange(const Writer& request, int descriptor = -1);
  // The worker cannot be used any more; every later call answers the same.
  Fault end(Fault fault);
  Fault broken(std::string_view step, const Reply& reply);

  std::optional<Fault> unusable(BufferId buffer) const;
  std::optional<Fault> check_alive();
  std::optional<Fault> check_host_state();
  std::optional<Fault> check_process();
  ProcessView view() const {
    return view_process(process_->pid(), arena_, arena_ + kArenaBytes);
  }
  Result<WireCall> on_wire(const CallBinding& call, bool bound) const;
  OrFault<CallTiming> run_once(CallId call, bool timed);
  OrFault<CallTiming> timed_by_device(const RunReply& run, CallTiming timing, bool timed);

  WorkerLimits limits_;
  int threads_;
  std::unique_ptr<WorkerProcess> process_;
  SharedBuffers buffers_;
  Confinement confinement_;
  uint64_t arena_ = 0;
  ProcessView baseline_;
  struct Pool {
    DLDataType dtype;
    std::vector<std::byte> bytes;
  };
  std::map<BufferId, Pool> pools_;
  std::optional<Fault> ended_;
  int threads_seen_ = 0;     // of a device's driver too, and found to be right
  int hidden_in_a_row_ = 0;  // checked calls that used more processor time than they said
};

// Reads the value out of a variant, or returns its Fault.
#define KL_OR_FAULT(decl, expr)                                          \
  auto KL_CONCAT(kl_got_, __LINE__) = (expr);                             \
  if (auto* kl_fault = std::get_if<Fault>(&KL_CONCAT(kl_got_, __LINE__))) \
    return std::move(*kl_fault);                                         \
  decl = std::get<0>(std::move(KL_CONCAT(kl_got_, __LINE__)))

Fault HostedWorker::end(Fault fault) {
  process_->finish();
  if (!ended_) ended_ = std::move(fault);
  return *ended_;
}

OrFault<HostedWorker::Reply> HostedWorker::exchange(const Writer& request, int descriptor) {
  if (ended_) return *ended_;
  Reader sent(request.bytes());
  const auto asked = sent.get<Header>();
  if (request.bytes().size() > kMessageBytes)
    return Fault{Status::execution_failed, "request-too-large",
                 fmt::format("a request of {} bytes exceeds {}", request.bytes().size(), kMessageBytes)};
  if (process_->has_unread())
    return end({Status::rejected, "forged-answer", "an answer lay in the channel before its question"});

  using Ended = WorkerProcess::Ended;
  std::vector<char> message;
  const Ended ended = process_->send(request.bytes(), descriptor)
                          ? process_->wait(limits_.call_seconds, message)
                          : Ended::gone;
  const auto phase = to_string(static_cast<Phase>(process_->status().phase.load()));
  switch (ended) {
    case Ended::replied: break;
    case Ended::timed_out:
      return end({Status::timed_out, "hang",
                  fmt::format("no answer within {} s during {}", limits_.call_seconds, phase)});
    case Ended::flooded:
      return end({Status::execution_failed, "output-flood",
                  fmt::format("printed more than {} bytes", limits_.printed_bytes)});
    case Ended::gone: {
      const int wait_status = process_->finish();
      return end(fault_of_death(process_->status(), wait_status, buffers_, arena_));
    }
  }
  Reader reader(message);
  const auto header = reader.get<Header>();
  if (!reader.ok() || header.token != asked.token || header.kind != asked.kind)
    return end({Status::rejected, "forged-answer",
                fmt::format("the answer repeats token {:#x}, the question had {:#x}", header.token, asked.token)});
  Reply reply;
  reply.bytes.assign(message.begin() + sizeof(Header), message.end());
  reply.failed = header.failed != 0;
  return reply;
}

Fault HostedWorker::broken(std::string_view step, const Reply& reply) {
  return end({Status::execution_failed, "worker", fmt::format("{}: {}", step, reply.text())});
}

std::optional<Fault> HostedWorker::greet() {
  auto answer = exchange(request(Kind::hello)
                             .put(Hello{kVersion, threads_, limits_.memory_bytes, 0})
                             .put_text(limits_.device));
  if (auto* fault = std::get_if<Fault>(&answer)) return *fault;
  const Reply& reply = std::get<0>(answer);
  if (reply.failed) return broken("start", reply);
  Reader in = reply.reader();
  const auto hello = in.get<HelloReply>();
  if (!in.ok() || hello.version != kVersion)
    return end({Status::execution_failed, "worker",
                fmt::format("kernel-lab-worker speaks version {}, this lab speaks {}; install both together",
                            hello.version, kVersion)});
  if (auto fault = fault_in(in)) return end(*fault);
  arena_ = hello.arena;
  buffers_.set_arena(arena_);
  if (on_device()) buffers_.stage_for_device();
  confinement_ = {hello.landlock != 0, hello.seccomp != 0, hello.no_new_privs != 0,
                  hello.memory_locked != 0 && !on_device(), on_device() ? in.get_text() : std::string()};
  baseline_ = view();
  return std::nullopt;
}

OrFault<ArmId> HostedWorker::load(const std::filesystem::path& library, std::string_view target,
                                  std::span<const std::string> services) {
  Writer message = request(Kind::load);
  message.put_text(library.string()).put_text(target).put(static_cast<uint32_t>(services.size()));
  for (const std::string& service : services) message.put_text(service);
  KL_OR_FAULT(const Reply reply, exchange(message));
  if (reply.failed) return Fault{Status::load_failed, "load", reply.text()};
  const ArmId arm = reply.reader().get<int32_t>();
  // Code arrives with a library: its own file and those it needs. Data files do not.
  for (const auto& [path, mapped] : view().mapped_files)
    if (mapped.executable) baseline_.mapped_files.insert_or_assign(path, mapped);
  if (auto fault = check_host_state()) return *fault;
  if (auto fault = check_process()) return *fault;
  return arm;
}

OrFault<BufferId> HostedWorker::add_buffer(BufferRole role, size_t bytes) {
  if (ended_) return *ended_;
  if (bytes > static_cast<size_t>(limits_.memory_bytes - buffers_.total_bytes()))
    return Fault{Status::execution_failed, "memory",
                 fmt::format("{} more shared bytes exceed the limit of {}; raise WorkerLimits::memory_bytes",
                             bytes, limits_.memory_bytes)};
  auto placed = buffers_.add(role, bytes);
  if (!placed.ok()) return fault_of(placed.error(), "memory");
  const Map map{placed->id, static_cast<uint32_t>(role), placed->address, placed->bytes,
                buffers_.address(placed->id), bytes, on_device() || role != BufferRole::input,
                !on_device() && role == BufferRole::output};
  auto answer = exchange(request(Kind::map).put(map), placed->descriptor);
  ::close(placed->descriptor);
  KL_OR_FAULT(const Reply reply, std::move(answer));
  if (reply.failed) return broken("add_buffer", reply);
  if (on_device()) {
    Reader in = reply.reader();
    if (auto fault = fault_in(in)) return *fault;
  }
  return placed->id;
}

OrFault<std::monostate> HostedWorker::drop_buffers() {
  KL_OR_FAULT(const Reply reply, exchange(request(Kind::clear)));
  if (reply.failed) return broken("drop_buffers", reply);
  if (on_device()) {
    Reader in = reply.reader();
    if (auto fault = fault_in(in)) return *fault;
  }
  buffers_.clear();
  pools_.clear();
  return std::monostate{};
}

OrFault<std::monostate> HostedWorker::keep_pool(BufferId buffer, DLDataType dtype) {
  if (auto fault = unusable(buffer)) return *fault;
  if (on_device()) return on_device(request(Kind::keep_pool).put(PoolOf{buffer, dtype}));
  const std::byte* data = buffers_.data(buffer);
  pools_[buffer] = {dtype, {data, data + buffers_.size(buffer)}};
  return std::monostate{};
}

OrFault<std::monostate> HostedWorker::draw(BufferId buffer, int64_t rotation, double factor) {
  if (auto fault = unusable(buffer)) return *fault;
  if (on_device()) return on_device(request(Kind::draw).put(DrawOf{buffer, rotation, factor}));
  const auto pool = pools_.find(buffer);
  if (pool == pools_.end())
    return Fault{Status::execution_failed, "binding",
                 fmt::format("buffer {} has no pool to draw from; call keep_pool first", buffer)};
  draw_from_pool(pool->second.dtype, pool->second.bytes, rotation, factor, buffers_.data(buffer));
  return std::monostate{};
}

OrFault<std::monostate> HostedWorker::fill(BufferId buffer, std::span<const std::byte> unit) {
  if (auto fault = unusable(buffer)) return *fault;
  if (on_device()) {
    FillOf fill{buffer, static_cast<uint32_t>(unit.size()), 0};
    std::memcpy(&fill.unit, unit.data(), std::min(unit.size(), sizeof fill.unit));
    return on_device(request(Kind::fill).put(fill));
  }
  std::byte* data = buffers_.data(buffer);
  const size_t bytes = buffers_.size(buffer);
  size_t filled = std::min(unit.size(), bytes);
  std::memcpy(data, unit.data(), filled);
  while (filled < bytes) {
    const size_t more = std::min(filled, bytes - filled);
    std::memcpy(data + filled, data, more);
    filled += more;
  }
  return std::monostate{};
}

OrFault<std::monostate> HostedWorker::fetch(BufferId buffer, size_t offset, size_t bytes) {
  if (auto fault = unusable(buffer)) return *fault;
  if (on_device()) return on_device(request(Kind::fetch).put(PartOf{buffer, offset, bytes}));
  return std::monostate{};
}

OrFault<std::monostate> HostedWorker::fetch_replay(BufferId buffer) {
  if (auto fault = unusable(buffer)) return *fault;
  if (on_device()) return on_device(request(Kind::fetch_replay).put(PartOf{buffer, 0, 0}));
  return std::monostate{};
}

std::optional<Fault> HostedWorker::fault_in(Reader& in) {
  const auto wire = in.get<WireFault>();
  std::string rule = in.get_text(), proof = in.get_text();
  if (!in.ok()) return end({Status::rejected, "forged-answer", "an answer about the device is too short"});
  if (wire.there_is == 0) return std::nullopt;
  Fault fault{static_cast<Status>(wire.status), std::move(rule), std::move(proof)};
  return wire.fatal != 0 ? end(std::move(fault)) : fault;
}

OrFault<std::monostate> HostedWorker::on_device(const Writer& request) {
  KL_OR_FAULT(const Reply reply, exchange(request));
  if (reply.failed) return broken("a request to the device", reply);
  Reader in = reply.reader();
  if (auto fault = fault_in(in)) return *fault;
  return std::monostate{};
}

std::optional<Fault> HostedWorker::unusable(BufferId buffer) const {
  if (ended_) return *ended_;
  if (buffers_.has(buffer)) return std::nullopt;
  return Fault{Status::execution_failed, "binding", fmt::format("buffer {} does not exist", buffer)};
}

Result<WireCall> HostedWorker::on_wire(const CallBinding& call, bool bound) const {
  const auto place = [&](BufferId id, std::string_view what) -> Result<uint64_t> {
    if (!bound || id < 0) return uint64_t{0};
    if (!buffers_.has(id))
      return make_error(Status::error, fmt::format("{} is bound to buffer {}, which does not exist", what, id),
                        "add_buffer gives the numbers; drop_buffers ends them");
    return buffers_.address(id);
  };
  WireCall wire;
  wire.operation = call.operation;
  wire.scalars = call.scalars;
  const auto convert = [&](const std::vector<TensorBinding>& from, std::vector<WireTensor>& to,
                           std::string_view what) -> Outcome {
    for (const auto& t : from) {
      KL_TRY(const uint64_t address, place(t.buffer, what));
      to.push_back({address, t.dtype, static_cast<uint64_t>(t.byte_offset), t.shape,
                    t.strides.empty() ? packed_strides(t.shape) : t.strides});
    }
    return {};
  };
  KL_CHECK(convert(call.inputs, wire.inputs, "an input"));
  KL_CHECK(convert(call.outputs, wire.outputs, "an output"));
  KL_TRY(wire.saved, place(call.saved, "saved"));
  KL_TRY(wire.scratch, place(call.scratch, "scratch"));
  for (const auto& t : call.outputs) {
    if (!bound || t.buffer < 0 || buffers_.role(t.buffer) != BufferRole::output) continue;
    const auto [address, bytes] = buffers_.pages(t.buffer);
    wire.writable.push_back({address, bytes});
  }
  return wire;
}

OrFault<Domain> HostedWorker::domain(ArmId arm, const CallBinding& call) {
  auto wire = on_wire(call, false);
  if (!wire.ok()) return fault_of(wire.error(), "binding");
  Writer message = request(Kind::domain);
  message.put(static_cast<int32_t>(arm));
  put_call(message, *wire);
  KL_OR_FAULT(const Reply reply, exchange(message));
  if (reply.failed) return broken("domain", reply);
  Reader in = reply.reader();
  Domain domain;
  const auto code = in.get<int32_t>();
  domain.scratch_bytes = in.get<uint64_t>();
  domain.saved_bytes = in.get<uint64_t>();
  const std::string text = in.get_text();
  if (const std::string thrown = in.get_text(); !thrown.empty())
    return Fault{Status::execution_failed, "throws", "accepts threw: " + thrown};
  domain.accepted = code == KL_OK;
  if (!domain.accepted) domain.why_not = text.empty() ? fmt::format("accepts returned {}", code) : text;
  return domain;
}

OrFault<CallId> HostedWorker::prepare(ArmId arm, const CallBinding& call) {
  auto wire = on_wire(call, true);
  if (!wire.ok()) return fault_of(wire.error(), "binding");
  Writer message = request(Kind::prepare);
  message.put(static_cast<int32_t>(arm));
  put_call(message, *wire);
  KL_OR_FAULT(const Reply reply, exchange(message));
  if (reply.failed) return broken("prepare", reply);
  Reader in = reply.reader();
  const CallId id = in.get<int32_t>();
  const auto code = in.get<int32_t>();
  const std::string text = in.get_text();
  if (const std::string thrown = in.get_text(); !thrown.empty())
    return Fault{Status::execution_failed, "throws", "prepare threw: " + thrown};
  if (code != KL_OK)
    return Fault{Status::execution_failed, "prepare", fmt::format("prepare returned {}: {}", code, text)};
  if (auto fault = check_host_state()) return *fault;
  if (auto fault = check_process()) return *fault;
  return id;
}

OrFault<CallTiming> HostedWorker::run_once(CallId call, bool timed) {
  ClockEvidence clock;
  clock.threads = threads_;
  const Kind kind = timed && on_device() ? Kind::run_timed : Kind::run;
  // A timed call finds the stack as it would in a step.
  const uint32_t stale = timed ? 0 : static_cast<uint32_t>(random_token()) | 1;
  const Writer message = std::move(request(kind).put(static_cast<int32_t>(call)).put(stale));
  const int64_t used_before = processor_time_ns(process_->pid());
  clock.parent_begin_ns = monotonic_ns();
  auto answer = exchange(message);
  clock.parent_end_ns = monotonic_ns();
  KL_OR_FAULT(const Reply reply, std::move(answer));
  clock.processor_ns = processor_time_ns(process_->pid()) - used_before;
  if (reply.failed) return broken("run", reply);
  Reader in = reply.reader();
  if (on_device())
    if (auto fault = fault_in(in)) return *fault;
  const auto run = in.get<RunReply>();
  CallTiming timing;
  timing.code = run.code;
  timing.text = in.get_text();
  timing.worker_ns = run.end_ns - run.begin_ns;
  timing.parent_ns = clock.parent_end_ns - clock.parent_begin_ns;
  if (run.threw != 0)
    return Fault{Status::execution_failed, "throws", "run threw: " + in.get_text()};
  if (run.plan_written != 0)
    return Fault{Status::rejected, "writes-plan",
                 "run changed its plan, or the description of a tensor, which are lent to read"};
  clock.worker_begin_ns = run.begin_ns;
  clock.worker_end_ns = run.end_ns;
  clock.protection_ns = run.protection_ns;
  timing.processor_ns = clock.processor_ns - clock.protection_ns;
  // Processor time of one call includes what the hypervisor stole from it and the host's own page
  // faults: a kernel that hides work does so again and again, so three calls in a row decide, and
  // 2 ms more are tolerated. Timed calls are judged all together by bench.
  constexpr int64_t kBusyMachine_ns = 2'000'000;
  constexpr int kCallsInARow = 3;
  clock.processor_ns = timed ? clock.protection_ns
                             : std::max(clock.protection_ns, clock.processor_ns - kBusyMachine_ns);
  if (on_device()) return timed_by_device(run, std::move(timing), timed);
  const bool inside = clock.worker_begin_ns >= clock.parent_begin_ns &&
                      clock.worker_begin_ns <= clock.worker_end_ns &&
                      clock.worker_end_ns <= clock.parent_end_ns;
  const auto text = clock_disagreement(clock);
  if (!timed) hidden_in_a_row_ = text ? hidden_in_a_row_ + 1 : 0;
  if (text && (!inside || hidden_in_a_row_ >= kCallsInARow)) {
    // Work that goes on after the call may show itself, and says more.
    if (auto fault = check_host_state()) return *fault;
    if (auto fault = check_process()) return *fault;
    return end({Status::rejected, "clock-disagrees", *text});
  }
  if (run.control_after != run.control_before)
    return Fault{Status::rejected, "floating-point-state",
                 fmt::format("run left the control state {:#x}, it was {:#x}", run.control_after, run.control_before)};
  if (const auto touched = buffers_.broken_canary()) {
    const BufferRole role = buffers_.role(touched->id);
    return Fault{Status::rejected,
                 role == BufferRole::scratch ? "scratch-overflow"
                 : role == BufferRole::saved ? "saved-overflow"
                                             : "out-of-bounds",
                 fmt::format("wrote byte {} of {}", touched->offset, buffers_.name(touched->id))};
  }
  return timing;
}

// The device's span lies inside the parent's bracket, or one of the two clocks is wrong.
OrFault<CallTiming> HostedWorker::timed_by_device(const RunReply& run, CallTiming timing, bool timed) {
  timing.worker_ns = run.span_ns;
  timing.bracket_ns = run.bracket_ns;
  timing.graph_nodes = run.graph_nodes;
  timing.replay_differs_bytes = run.replay_differs_bytes;
  timing.processor_ns = 0;  // the host spins while it waits
  if (timed && run.span_ns > timing.parent_ns + timing.parent_ns / 4)
    return end({Status::rejected, "clock-disagrees",
                fmt::format("the device says {} ns, the parent saw {} ns", run.span_ns, timing.parent_ns)});
  if (run.control_after != run.control_before)
    return Fault{Status::rejected, "floating-point-state",
                 fmt::format("run left the control state {:#x}, it was {:#x}", run.control_after, run.control_before)};
  return timing;
}

OrFault<CallTiming> HostedWorker::run(CallId call) {
  KL_OR_FAULT(const CallTiming timing, run_once(call, false));
  if (auto fault = check_host_state()) return *fault;
  if (auto fault = check_process()) return *fault;
  return timing;
}

OrFault<std::monostate> HostedWorker::flush_caches() {
  KL_OR_FAULT(const Reply reply, exchange(request(Kind::flush)));
  if (reply.failed) return broken("flush", reply);
  Reader in = reply.reader();
  if (on_device())
    if (auto fault = fault_in(in)) return *fault;
  return std::monostate{};
}

OrFault<CallTiming> HostedWorker::run_timed(CallId call, bool cold) {
  if (cold) {
    KL_OR_FAULT([[maybe_unused]] const auto flushed, flush_caches());
  }
  KL_OR_FAULT(const CallTiming timing, run_once(call, true));
  if (on_device()) {
    KL_OR_FAULT([[maybe_unused]] const auto checked,
                on_device(request(Kind::check_after).put(static_cast<int32_t>(call))));
  }
  const int threads = count_threads(process_->pid());
  if (threads > std::max(threads_seen_, static_cast<int>(baseline_.threads.size()))) {
    // A pool that a kernel shrank and grew again may still be losing its old threads.
    if (auto fault = check_host_state()) return *fault;
    if (auto fault = check_process()) return *fault;
    if (on_device()) threads_seen_ = threads;
  }
  if (auto fault = check_alive()) return *fault;
  return timing;
}

std::optional<Fault> HostedWorker::check_alive() {
  if (!process_->has_ended()) return std::nullopt;
  const int wait_status = process_->finish();
  return end(fault_of_death(process_->status(), wait_status, buffers_, arena_));
}

// Floating-point state of the pool's threads and the environment, which only the worker can read.
std::optional<Fault> HostedWorker::check_host_state() {
  auto answer = exchange(request(Kind::inspect));
  if (auto* fault = std::get_if<Fault>(&answer)) return *fault;
  const auto found = std::get<0>(answer).reader().get<InspectReply>();
  if (found.control_found != found.control_expected)
    return Fault{Status::rejected, "floating-point-state",
                 fmt::format("a thread was left with control state {:#x}, it was {:#x}",
                             found.control_found, found.control_expected)};
  if (found.pool_threads != threads_)
    return end({Status::rejected, "open-region",
                fmt::format("a parallel region of the host gets {} threads, it got {} before the candidate: "
                            "one of the candidate's own regions was never closed",
                            found.pool_threads, threads_)});
  if (found.environment_changed != 0)
    return end({Status::rejected, "environment", "the environment variables changed"});
  return std::nullopt;
}

// What a device's driver opens and maps as it goes along.
bool HostedWorker::is_drivers(const std::string& what) const {
  if (!on_device()) return false;
  for (const char* prefix : {"/dev/nvidia", "/dev/zero", "/memfd:", "anon_inode:", "pipe:", "/proc/driver/nvidia"})
    if (what.starts_with(prefix)) return true;
  return what.find("libcuda") != std::string::npos || what.find("libnvidia") != std::string::npos;
}

// Threads, children, files and mappings beyond those there before the candidate.
std::optional<Fault> HostedWorker::check_process() {
  ProcessView now = view();
  const auto own_threads = [&](const ProcessView& v) {
    // The driver names its threads.
    return std::count_if(v.threads.begin(), v.threads.end(), [&](const auto& thread) {
      return !on_device() || baseline_.threads.contains(thread.first) ||
             !v.thread_names.at(thread.first).starts_with("cuda");
    });
  };
  const auto expected = static_cast<int64_t>(baseline_.threads.size());
  // A joined thread stays visible for a moment.
  for (int i = 0; i < 20 && own_threads(now) > expected; ++i) {
    ::poll(nullptr, 0, 2);
    now = view();
  }
  if (own_threads(now) > expected) {
    for (int i = 0; i < 4; ++i) {  // what it is about to do says more than that it is there
      ::poll(nullptr, 0, 50);
      if (auto fault = check_host_state()) return *fault;
    }
    std::string names;
    for (const auto& [thread, name] : now.thread_names)
      if (!baseline_.threads.contains(thread)) names += " " + name;
    return end({Status::rejected, "new-thread",
                fmt::format("{} threads, {} before the candidate; new:{}", now.threads.size(), expected, names)});
  }
  if (!now.children.empty())
    return end({Status::rejected, "child-process", fmt::format("left child {}", *now.children.begin())});
  const std::string& mask = baseline_.threads.begin()->second;
  for (const auto& [thread, affinity] : now.threads)
    if (affinity != mask && !affinity.empty() && !on_device())
      return end({Status::rejected, "affinity",
                  fmt::format("thread {} may run on cores {}, was {}", thread, affinity, mask)});
  for (const auto& [fd, what] : now.open_files) {
    const auto before = baseline_.open_files.find(fd);
    if ((before == baseline_.open_files.end() || before->second != what) && !is_drivers(what))
      return end({Status::rejected, "open-file", fmt::format("descriptor {} is {}", fd, what)});
  }
  for (const std::string& path : newly_mapped(baseline_, now))
    if (!is_drivers(path))
      return end({Status::rejected, "mapped-file", fmt::format("{} is mapped", path)});
  return check_alive();  // the view of a dying process is clean
}

OrFault<Worker::Footprint> HostedWorker::footprint() {
  if (ended_) return *ended_;
  const ProcessView now = view();
  return Footprint{private_resident_bytes(process_->pid()), static_cast<int>(now.open_files.size()),
                   static_cast<int>(now.threads.size())};
}

}  // namespace

OrFault<std::unique_ptr<Worker>> Worker::start(const WorkerLimits& limits) {
  // On a device the host's threads only launch.
  const int threads = !limits.device.empty() ? 1 : limits.threads > 0 ? limits.threads : usable_cores();
  auto process = WorkerProcess::start(limits, threads);
  if (!process.ok()) return fault_of(process.error(), "worker");
  auto worker = std::make_unique<HostedWorker>(limits, threads, std::move(*process));
  if (auto fault = worker->greet()) return *fault;
  return std::unique_ptr<Worker>(std::move(worker));
}

}  // namespace kl
