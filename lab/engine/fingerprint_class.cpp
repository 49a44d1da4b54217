#include <lab/engine/fingerprint_class.hpp>

namespace kl {

FingerprintClass fingerprint_class(const Engine& engine) {
  FingerprintClass result;
  result.cpu_model = cpu_model();
  result.cores = usable_cores();
  result.device = result.cpu_model;
  const auto device = engine.device();
  if (!device.ok()) return result;
  result.device = device->name;
  result.driver = device->driver;
  result.toolkit = device->toolkit;
  result.compiler = device->toolkit;
  return result;
}

}  // namespace kl
