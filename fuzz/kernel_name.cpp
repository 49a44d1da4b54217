// Any bytes as a kernel's name: one spelling that is its own, and a rule or none.
#include <lab/trace/kernel_name.hpp>
#include <lab/trace/name_rules.hpp>

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string name = kl::trace::normalise_kernel_name({reinterpret_cast<const char*>(bytes), size});
  kl::trace::rule_of_kernel(name);
  return 0;
}
