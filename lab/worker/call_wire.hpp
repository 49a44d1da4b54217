// A call as it travels: the binding of a candidate's tensors, with addresses in the worker in place
// of buffers.
#pragma once

#include <lab/worker/protocol.hpp>

#include <dlpack/dlpack.h>

#include <cstdint>
#include <vector>

namespace kl::protocol {

struct WireTensor {
  uint64_t address = 0;  // 0: absent, or not yet bound
  DLDataType dtype{kDLFloat, 32, 1};
  uint64_t byte_offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

struct WireCall {
  int32_t operation = 0;
  std::vector<WireTensor> inputs, outputs;
  std::vector<double> scalars;
  uint64_t saved = 0;
  uint64_t scratch = 0;
  std::vector<Range> writable;  // unlocked while `run` runs
};

inline void put_tensors(Writer& w, const std::vector<WireTensor>& tensors) {
  w.put(static_cast<uint32_t>(tensors.size()));
  for (const auto& t : tensors)
    w.put(t.address).put(t.dtype).put(t.byte_offset).put_list(t.shape).put_list(t.strides);
}
inline void put_call(Writer& w, const WireCall& call) {
  w.put(call.operation);
  put_tensors(w, call.inputs);
  put_tensors(w, call.outputs);
  w.put_list(call.scalars).put(call.saved).put(call.scratch).put_list(call.writable);
}

inline std::vector<WireTensor> get_tensors(Reader& r) {
  std::vector<WireTensor> tensors;
  const auto count = r.get<uint32_t>();
  for (uint32_t i = 0; r.ok() && i < count; ++i) {
    WireTensor t;
    t.address = r.get<uint64_t>();
    t.dtype = r.get<DLDataType>();
    t.byte_offset = r.get<uint64_t>();
    t.shape = r.get_list<int64_t>();
    t.strides = r.get_list<int64_t>();
    tensors.push_back(std::move(t));
  }
  return tensors;
}
inline WireCall get_call(Reader& r) {
  WireCall call;
  call.operation = r.get<int32_t>();
  call.inputs = get_tensors(r);
  call.outputs = get_tensors(r);
  call.scalars = r.get_list<double>();
  call.saved = r.get<uint64_t>();
  call.scratch = r.get<uint64_t>();
  call.writable = r.get_list<Range>();
  return call;
}

}  // namespace kl::protocol
