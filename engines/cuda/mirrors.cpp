#include <engines/cuda/mirrors.hpp>

#include <fmt/format.h>

#include <vector>

namespace kl::cuda {
namespace {

// All ones is a NaN in every floating type, so that a value read from outside shows in the result.
constexpr uint32_t kCanary = 0xFF;
constexpr size_t kGuardBytes = 256 << 10;
constexpr size_t kAlignment = 256;

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

// The part of a device kernel's name that tells its element type.
std::string element_of(DLDataType dtype, bool scaled) {
  if (scaled && dtype.code == kDLBfloat && dtype.bits == 16) return "bf16";
  if (scaled && dtype.code == kDLFloat) return fmt::format("f{}", dtype.bits);
  return fmt::format("{}", dtype.bits);
}

std::optional<DeviceFault> failed(CUresult error, std::string_view step) {
  if (error == CUDA_SUCCESS) return std::nullopt;
  return fault_of(error, step);
}

}  // namespace

CUdeviceptr Mirror::data() const { return memory.at(kGuardBytes); }

CUresult Findings::create(Context& context) {
  context_ = &context;
  return memory_.allocate(context.driver(), kMost * sizeof(Finding));
}

CUresult Findings::reset(CUstream stream) {
  used_ = 0;
  // {0, ~0} per place: 8 bytes of each; one fill of ones, then the counts.
  std::vector<Finding> blank(kMost, Finding{0, ~uint64_t{0}});
  const CUresult error = context_->driver().cuMemcpyHtoDAsync(memory_.at(), blank.data(), memory_.bytes(), stream);
  return error == CUDA_SUCCESS ? context_->driver().cuStreamSynchronize(stream) : error;
}

CUdeviceptr Findings::next() {
  const size_t place = used_ < kMost ? used_++ : kMost - 1;
  return memory_.at(place * sizeof(Finding));
}

CUresult Findings::read(CUstream stream, std::vector<Finding>& findings) {
  findings.resize(used_);
  if (used_ == 0) return CUDA_SUCCESS;
  const CUresult error =
      context_->driver().cuMemcpyDtoHAsync(findings.data(), memory_.at(), used_ * sizeof(Finding), stream);
  return error == CUDA_SUCCESS ? context_->driver().cuStreamSynchronize(stream) : error;
}

CUresult Mirrors::create(Context& context) {
  context_ = &context;
  return findings_.create(context);
}

Mirror* Mirrors::find(int id) {
  const auto found = mirrors_.find(id);
  return found == mirrors_.end() ? nullptr : &found->second;
}

std::string Mirrors::name(int id) const {
  static constexpr const char* kRoles[] = {"input", "output", "saved", "scratch"};
  const Mirror* m = find(id);
  if (m == nullptr) return fmt::format("buffer {}", id);
  return fmt::format("{} buffer {} of {} bytes", kRoles[static_cast<int>(m->role)], id, m->bytes);
}

std::optional<DeviceFault> Mirrors::add(int id, MirrorRole role, std::byte* host, size_t bytes, CUstream stream) {
  Mirror m;
  m.role = role;
  m.host = host;
  m.bytes = bytes;
  const Driver& driver = context_->driver();
  const size_t whole = 2 * kGuardBytes + round_up(bytes, kAlignment);
  if (auto fault = failed(m.memory.allocate(driver, whole), fmt::format("{} bytes of device memory", whole)))
    return fault;
  CUresult error = driver.cuMemsetD8Async(m.memory.at(), kCanary, kGuardBytes, stream);
  if (error == CUDA_SUCCESS)
    error = driver.cuMemsetD8Async(m.data() + bytes, kCanary, whole - kGuardBytes - bytes, stream);
  if (error == CUDA_SUCCESS) error = driver.cuStreamSynchronize(stream);
  mirrors_.insert_or_assign(id, std::move(m));
  return failed(error, "writing guard zones");
}

std::optional<DeviceFault> Mirrors::keep_pool(int id, DLDataType dtype, CUstream stream) {
  Mirror& m = *find(id);
  m.pool_type = dtype;
  if (auto fault = failed(m.pool.allocate(context_->driver(), m.bytes),
                          fmt::format("{} bytes of device memory for a pool", m.bytes)))
    return fault;
  // In the stream that draws from it: a copy outside may still be under way when it returns.
  CUresult error = context_->driver().cuMemcpyHtoDAsync(m.pool.at(), m.host, m.bytes, stream);
  if (error == CUDA_SUCCESS) error = context_->driver().cuStreamSynchronize(stream);
  return failed(error, "uploading a pool");
}

std::optional<DeviceFault> Mirrors::draw(int id, int64_t rotation, double factor, CUstream stream) {
  Mirror& m = *find(id);
  if (m.pool.empty())
    return DeviceFault{Status::execution_failed, "binding",
                       fmt::format("buffer {} has no pool to draw from; call keep_pool first", id), false};
  const size_t width = m.pool_type.bits * m.pool_type.lanes / 8u;
  const uint64_t count = m.bytes / width;
  const std::string element = element_of(m.pool_type, factor != 1);
  const std::string kernel = (element[0] == 'b' || element[0] == 'f' ? "kl_draw_" : "kl_move_") + element;
  m.made_here = m.drawn = true;
  m.rotation = rotation;
  m.factor = factor;
  return failed(context_->launch(kernel.c_str(), context_->blocks_for(count), Context::kThreads, stream, m.data(),
                                 m.pool.at(), count, static_cast<uint64_t>(rotation), factor),
                "drawing contents");
}

std::optional<DeviceFault> Mirrors::fill(int id, std::span<const std::byte> unit, CUstream stream) {
  Mirror& m = *find(id);
  uint64_t pattern = 0;
  for (size_t i = 0; i < 8; ++i)
    pattern |= static_cast<uint64_t>(unit[i % unit.size()]) << (8 * i);
  m.made_here = true;
  m.drawn = false;
  const uint64_t bytes = m.bytes;
  return failed(context_->launch("kl_fill", context_->blocks_for(bytes / 8), Context::kThreads, stream, m.data(),
                                 bytes, pattern),
                "filling a buffer");
}

std::optional<DeviceFault> Mirrors::broken_guard(CUstream stream) {
  if (auto fault = failed(findings_.reset(stream), "checking guard zones")) return fault;
  struct Zone {
    int id;
    int64_t offset;  // of its first byte, from the buffer's
  };
  std::vector<Zone> zones;
  for (const auto& [id, m] : mirrors_) {
    const auto bytes = static_cast<int64_t>(m.bytes);
    const uint64_t behind = m.memory.bytes() - kGuardBytes - m.bytes;
    for (const auto& [offset, length] : {std::pair<int64_t, uint64_t>{-static_cast<int64_t>(kGuardBytes), kGuardBytes},
                                         std::pair<int64_t, uint64_t>{bytes, behind}}) {
      const CUdeviceptr at = m.data() + static_cast<CUdeviceptr>(offset);
      if (auto fault = failed(context_->launch("kl_zone", context_->blocks_for(length), Context::kThreads, stream, at,
                                               length, kCanary, findings_.next()),
                              "checking guard zones"))
        return fault;
      zones.push_back({id, offset});
    }
  }
  std::vector<Findings::Finding> found;
  if (auto fault = failed(findings_.read(stream, found), "checking guard zones")) return fault;
  for (size_t i = 0; i < found.size() && i < zones.size(); ++i) {
    if (found[i].count == 0) continue;
    const Mirror& m = *find(zones[i].id);
    const char* rule = m.role == MirrorRole::scratch ? "scratch-overflow"
                       : m.role == MirrorRole::saved ? "saved-overflow"
                                                     : "out-of-bounds";
    const int64_t at = zones[i].offset + static_cast<int64_t>(found[i].first);
    DeviceFault fault{Status::rejected, rule,
                      fmt::format("wrote byte {} of {} ({} bytes of its guard zone)", at, name(zones[i].id),
                                  found[i].count),
                      false};
    // Whole again, so that the next call answers for itself.
    const Driver& driver = context_->driver();
    const uint64_t length = zones[i].offset < 0 ? kGuardBytes : m.memory.bytes() - kGuardBytes - m.bytes;
    driver.cuMemsetD8Async(m.data() + static_cast<CUdeviceptr>(zones[i].offset), kCanary, length, stream);
    driver.cuStreamSynchronize(stream);
    return fault;
  }
  return std::nullopt;
}

std::optional<DeviceFault> Mirrors::changed_input(std::span<const int> ids, CUstream stream) {
  if (auto fault = failed(findings_.reset(stream), "comparing inputs")) return fault;
  std::vector<int> compared;
  for (const int id : ids) {
    const Mirror* m = find(id);
    if (m == nullptr || m->role != MirrorRole::input || !m->drawn) continue;
    const uint64_t count = m->bytes / (m->pool_type.bits * m->pool_type.lanes / 8u);
    const std::string kernel = "kl_differs_" + element_of(m->pool_type, m->factor != 1);
    if (auto fault = failed(context_->launch(kernel.c_str(), context_->blocks_for(count), Context::kThreads, stream,
                                             m->data(), m->pool.at(), count, static_cast<uint64_t>(m->rotation),
                                             m->factor, findings_.next()),
                            "comparing inputs"))
      return fault;
    compared.push_back(id);
  }
  std::vector<Findings::Finding> found;
  if (auto fault = failed(findings_.read(stream, found), "comparing inputs")) return fault;
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i].count > 0)
      return DeviceFault{Status::rejected, "writes-input",
                         fmt::format("{} elements of {} changed, the first is element {}", found[i].count,
                                     name(compared[i]), found[i].first),
                         false};
  return std::nullopt;
}

CUresult Mirrors::compare(CUdeviceptr a, CUdeviceptr b, size_t bytes, CUstream stream, Findings::Finding& finding) {
  finding = {};
  if (bytes == 0) return CUDA_SUCCESS;
  if (const CUresult error = findings_.reset(stream); error != CUDA_SUCCESS) return error;
  const uint64_t count = bytes;
  const CUresult error = context_->launch("kl_differs_8", context_->blocks_for(count), Context::kThreads, stream, a, b,
                                          count, uint64_t{0}, 1.0, findings_.next());
  if (error != CUDA_SUCCESS) return error;
  std::vector<Findings::Finding> found;
  if (const CUresult read = findings_.read(stream, found); read != CUDA_SUCCESS) return read;
  finding = found[0];
  return CUDA_SUCCESS;
}

}  // namespace kl::cuda
