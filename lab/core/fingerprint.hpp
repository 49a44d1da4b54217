// What machine this is. The class decides which evidence may be mixed; the session is recorded and
// never mixed inside one set of pairs.
#pragma once

#include <lab/core/record.hpp>

namespace kl {

struct FingerprintClass {
  std::string device;     // GPU model, or the CPU model
  std::string driver;     // major version; empty on cpu
  std::string toolkit;
  std::string compiler;
  std::string cpu_model;
  int cores = 0;          // usable by this process
  std::string libraries;  // versions that enter a training step: "openblas 0.3.21 Zen"
  std::string image;      // digest, if known

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("device", self.device, "GPU model, or the CPU model");
    v("driver", self.driver, "major version");
    v("toolkit", self.toolkit, "toolkit version");
    v("compiler", self.compiler, "host compiler version");
    v("cpu_model", self.cpu_model, "model name of the CPU");
    v("cores", self.cores, "cores this process may use");
    v("libraries", self.libraries, "library versions that enter a training step");
    v("image", self.image, "image digest, if known");
  }
  std::string hash() const;  // first 16 digits of the SHA-256 of its JSON
};

struct FingerprintSession {
  std::string host;
  std::string boot_id;
  std::string kernel;     // operating system release
  std::string governor;   // "unknown" where it cannot be read

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("host", self.host, "host name");
    v("boot_id", self.boot_id, "changes with every boot");
    v("kernel", self.kernel, "operating system release");
    v("governor", self.governor, "frequency governor, or unknown");
  }
};

int usable_cores();
std::string cpu_model();
FingerprintSession current_session();

}  // namespace kl
