// A worker whose calls see memory of their own, as on a device: the parent's mapping and the
// contents are two things. Runs squared ReLU in f32, and can be told to err.
#pragma once

#include <lab/worker/draw.hpp>
#include <lab/worker/worker.hpp>

#include <cmath>
#include <cstring>
#include <vector>

namespace kl {

class DeviceWorker : public Worker {
 public:
  struct Buffer {
    std::vector<std::byte> mapping, contents, replay, pool;
    DLDataType dtype{kDLFloat, 32, 1};
    bool made_there = false;  // drawn or filled: the mapping is not uploaded
  };

  // Added to the first element of the output by a replay of the captured call.
  float replay_error = 0;
  bool replay_rounds_otherwise = false;  // by one unit in the last place
  float run_error = 0;
  bool writes_input = false;
  int64_t fetched_bytes = 0;

  const Confinement& confinement() const override { return confinement_; }
  OrFault<ArmId> load(const std::filesystem::path&, std::string_view, std::span<const std::string>) override { return ArmId{0}; }
  OrFault<BufferId> add_buffer(BufferRole, size_t bytes) override {
    buffers_.push_back({std::vector<std::byte>(bytes), std::vector<std::byte>(bytes), {}, {}});
    return static_cast<BufferId>(buffers_.size() - 1);
  }
  OrFault<std::monostate> drop_buffers() override {
    buffers_.clear();
    calls_.clear();
    return std::monostate{};
  }
  std::byte* data(BufferId id) override { return at(id).mapping.data(); }
  size_t size(BufferId id) const override {
    return buffers_[static_cast<size_t>(id)].mapping.size();
  }
  OrFault<Domain> domain(ArmId, const CallBinding&) override { return Domain{true, "", 0, 0}; }
  OrFault<CallId> prepare(ArmId, const CallBinding& call) override {
    calls_.push_back(call);
    return static_cast<CallId>(calls_.size() - 1);
  }
  OrFault<CallTiming> run(CallId id) override {
    const CallBinding& call = calls_[static_cast<size_t>(id)];
    for (Buffer& buffer : buffers_)
      if (!buffer.made_there) buffer.contents = buffer.mapping;
    compute(call);
    Buffer& out = at(call.outputs[0].buffer);
    out.replay = out.contents;
    auto* values = reinterpret_cast<float*>(out.replay.data());
    values[0] += replay_error;
    if (replay_rounds_otherwise) values[0] = std::nextafter(values[0], 1e30f);
    CallTiming timing;
    timing.worker_ns = timing.parent_ns = 1000;
    timing.graph_nodes = 1;
    timing.replay_differs_bytes = out.replay == out.contents ? 0 : 4;
    return timing;
  }
  OrFault<std::monostate> flush_caches() override { return std::monostate{}; }
  OrFault<CallTiming> run_timed(CallId id, bool) override {
    compute(calls_[static_cast<size_t>(id)]);
    CallTiming timing;
    timing.worker_ns = timing.parent_ns = 1000;
    return timing;
  }
  OrFault<std::monostate> keep_pool(BufferId id, DLDataType dtype) override {
    at(id).pool = at(id).mapping;
    at(id).dtype = dtype;
    return std::monostate{};
  }
  OrFault<std::monostate> draw(BufferId id, int64_t rotation, double factor) override {
    Buffer& buffer = at(id);
    draw_from_pool(buffer.dtype, buffer.pool, rotation, factor, buffer.contents.data());
    buffer.made_there = true;
    return std::monostate{};
  }
  OrFault<std::monostate> fill(BufferId id, std::span<const std::byte> unit) override {
    Buffer& buffer = at(id);
    for (size_t i = 0; i < buffer.contents.size(); ++i)
      buffer.contents[i] = unit[i % unit.size()];
    buffer.made_there = true;
    return std::monostate{};
  }
  OrFault<std::monostate> fetch(BufferId id, size_t offset, size_t bytes) override {
    std::memcpy(at(id).mapping.data() + offset, at(id).contents.data() + offset, bytes);
    fetched_bytes += static_cast<int64_t>(bytes);
    return std::monostate{};
  }
  OrFault<std::monostate> fetch_replay(BufferId id) override {
    at(id).mapping = at(id).replay;
    return std::monostate{};
  }
  OrFault<Footprint> footprint() override { return Footprint{}; }
  std::string printed() const override { return {}; }

 private:
  Buffer& at(BufferId id) { return buffers_[static_cast<size_t>(id)]; }
  float* values(const TensorBinding& tensor) {
    return reinterpret_cast<float*>(at(tensor.buffer).contents.data());
  }
  void compute(const CallBinding& call) {
    const int64_t count = call.inputs[0].shape[0] * call.inputs[0].shape[1];
    const bool forward = call.operation == 0;
    float* h = values(call.inputs[forward ? 0 : 1]);
    const float* dy = values(call.inputs[0]);
    float* out = values(call.outputs[0]);
    for (int64_t i = 0; i < count; ++i) {
      const float relu = h[i] < 0 ? 0 : h[i];
      out[i] = forward ? relu * relu : 2 * relu * dy[i];
    }
    out[0] += run_error;
    if (writes_input) h[0] += 1;
  }

  Confinement confinement_;
  std::vector<Buffer> buffers_;
  std::vector<CallBinding> calls_;
};

}  // namespace kl
