// What a machine can do at best, measured: the yardsticks beside a kernel's own figures.
#pragma once

#include <lab/core/progress.hpp>
#include <lab/core/record.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kl {

// The fastest way found to move `footprint_bytes` once, of which `read_fraction` is read and the
// rest written.
struct Ceiling {
  int64_t footprint_bytes = 0;   // distinct bytes read plus distinct bytes written
  double read_fraction = 0.5;    // bytes read / footprint
  bool cold = true;              // caches flushed before each pass
  double gb_per_s = 0;           // 1e9 bytes a second, median over the passes
  std::string method;            // "2 threads, streaming stores"

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("footprint_bytes", self.footprint_bytes, "distinct bytes read plus distinct bytes written");
    v("read_fraction", self.read_fraction, "bytes read over footprint");
    v("cold", self.cold, "caches flushed before each pass");
    v("gb_per_s", self.gb_per_s, "1e9 bytes a second, median over the passes");
    v("method", self.method, "threads and stores that were fastest");
  }
};

// A device's own figures; of the host the product's fp32 rate alone. What was not measured is null,
// never 0.
struct DeviceFigures {
  std::optional<double> bf16_tflop_per_s, tf32_tflop_per_s, fp32_tflop_per_s;
  std::string gemm_shape;                  // "8192 x 8192 x 8192"; empty: not measured
  std::string gemm_unknown;                // why a rate is null
  std::optional<double> launch_us;         // an empty kernel, launched and waited for
  std::optional<double> launch_rate_us;    // one of many empty kernels in a row
  std::optional<double> graph_launch_us;   // a graph of one empty kernel, launched and waited for
  std::optional<double> sync_us;           // waiting for a stream with nothing in it
  std::optional<double> event_bracket_ns;  // two events with nothing between
  std::optional<double> device_clock_ns;   // smallest step of the device's own timer
  std::optional<double> cache_knee_bytes;  // footprint beyond which re-reading falls to the memory's rate

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("bf16_tflop_per_s", self.bf16_tflop_per_s, "matrix product, bf16 in and out; null: unknown");
    v("tf32_tflop_per_s", self.tf32_tflop_per_s, "matrix product, fp32 through tf32; null: unknown");
    v("fp32_tflop_per_s", self.fp32_tflop_per_s, "matrix product, fp32; null: unknown");
    v("gemm_shape", self.gemm_shape, "rows, columns and depth of the products");
    v("gemm_unknown", self.gemm_unknown, "why a rate is null");
    v("launch_us", self.launch_us, "an empty kernel, launched and waited for");
    v("launch_rate_us", self.launch_rate_us, "one of many empty kernels in a row");
    v("graph_launch_us", self.graph_launch_us, "a graph of one empty kernel, launched and waited for");
    v("sync_us", self.sync_us, "waiting for a stream with nothing in it");
    v("event_bracket_ns", self.event_bracket_ns, "two events with nothing between");
    v("device_clock_ns", self.device_clock_ns, "smallest step of the device's timer");
    v("cache_knee_bytes", self.cache_knee_bytes, "footprint beyond which re-reading falls to the memory's rate");
  }
};

struct CeilingRequest {
  bool quick = false;
  Progress progress;
};

struct DeviceCeilings {
  std::vector<Ceiling> ceilings;
  DeviceFigures figures;
  int64_t timer_resolution_ns = 0;  // of the events that time calls
  int64_t flush_bytes = 0;          // written to evict the device's caches
};

}  // namespace kl
