// NVML, loaded at run time and optional: what it does not tell stays unknown.
#pragma once

#include <lab/engine/device_readings.hpp>

#include <optional>
#include <string>

namespace kl::cuda {

struct NvmlDriver {
  std::string version;  // of the driver: "580.65.06"
};

// nullopt where libnvidia-ml.so.1 does not load or does not start.
std::optional<NvmlDriver> nvml_driver();
// Of the device at this PCI address; `why_not` says what kept everything unknown.
std::optional<DeviceReadings> nvml_readings(const std::string& pci_bus_id, std::string* why_not = nullptr);
// The names of the bits that lower clocks: "sw-power-cap", "hw-thermal-slowdown", …
std::vector<std::string> throttle_names(unsigned long long bits);

}  // namespace kl::cuda
