// What `calibrate` knows about one machine: bandwidth ceilings, the timer's floor, the trainer's
// own noise, and the choices that follow from them. Evidence of one fingerprint class only. Noise and
// shares of an `unstable` one are kept and used by nobody.
#pragma once

#include <lab/core/fingerprint.hpp>
#include <lab/core/machine_load.hpp>
#include <lab/core/record.hpp>
#include <lab/engine/ceilings.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kl {

// A/A pairs of the trainer on one preset (integration-ab's own noise).
struct PresetNoise {
  double s_aa = 0;               // SD of log ratios of A/A pairs, n - 1 in the variance
  int64_t pairs = 0;
  double delta_eff = 0;          // smallest effect integration-ab can decide here
  double leg_seconds = 0;        // steady training per leg
  int64_t steps_per_leg = 0;
  std::vector<double> log_ratios;
  std::optional<MachineLoad> load;  // while they ran

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("s_aa", self.s_aa, "standard deviation of the A/A pairs' log ratios");
    v("pairs", self.pairs, "A/A pairs behind s_aa");
    v("delta_eff", self.delta_eff, "smallest effect integration-ab can decide");
    v("leg_seconds", self.leg_seconds, "steady training per leg");
    v("steps_per_leg", self.steps_per_leg, "steps that a leg holds");
    v("log_ratios", self.log_ratios, "the A/A pairs themselves");
    v("load", self.load, "what other processes did meanwhile, or null");
  }
};

struct Calibration : RecordHeader {
  static constexpr std::string_view kSchema = "calibration";
  FingerprintClass fingerprint_class;
  FingerprintSession session;
  int cores = 0;
  int64_t timer_resolution_ns = 0;               // smallest step the lab's clock shows
  int64_t flush_bytes = 0;                       // written to evict the caches
  std::vector<Ceiling> ceilings;
  std::optional<DeviceFigures> device;           // of the host: the matrix product alone
  std::map<std::string, PresetNoise> aa;         // by preset
  std::map<std::string, std::map<std::string, double>> seam_share;  // preset → seam → of the step
  std::string default_preset;                    // empty: none chosen
  double leg_seconds = 0;                        // of the default preset

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("fingerprint_class", self.fingerprint_class, "machine class these numbers belong to");
    v("session", self.session, "host and boot of the measurement");
    v("cores", self.cores, "cores this process may use");
    v("timer_resolution_ns", self.timer_resolution_ns, "smallest step of the lab's clock");
    v("flush_bytes", self.flush_bytes, "bytes written to evict the caches");
    v("ceilings", self.ceilings, "copy bandwidth by footprint and read:write mix");
    v("device", self.device, "the device's own figures, or the host's matrix product; null: not measured");
    v("aa", self.aa, "A/A noise of the trainer by preset");
    v("seam_share", self.seam_share, "share of a training step, by preset and seam");
    v("default_preset", self.default_preset, "strongest preset that fits the time budget");
    v("leg_seconds", self.leg_seconds, "leg of the default preset");
  }
};

// Interpolated between the measured points: footprint on a log scale, mix linearly; outside them
// the nearest point. Empty when nothing was measured for this cache state.
std::optional<double> ceiling_gb_per_s(const std::vector<Ceiling>& ceilings,
                                       double footprint_bytes, double read_fraction,
                                       bool cold = true);
std::optional<double> ceiling_gb_per_s(const Calibration& calibration, double footprint_bytes,
                                       double read_fraction, bool cold = true);

}  // namespace kl
