// The family of a kernel by its name: the last resort, where neither a range nor an operator says what launched it.
#pragma once

#include <span>
#include <string_view>

namespace kl::trace {

// Where a rule looks.
enum class Where : uint8_t {
  fused,    // the operators that a compiler's name lists ("triton_poi_fused_add_mul_3"), with the kind of kernel before them
  functor,  // each part inside the template arguments of a carrier, the innermost first
  carrier,  // the kernel's own name, if it is a template that only carries a functor; its family where no functor is known
  name,     // the kernel's own name
  any,      // all parts
};

struct NameRule {
  std::string_view id, family;
  double confidence;
  Where where;
  // Alternatives '|' of conditions '&' that words are there, or are not ('!'). A word is folded ("layernorm") and
  // stands for whole words; "norm*" may end inside one, "*gemm" begin inside one. "@moves": nothing but movement is fused.
  std::string_view when;
};

// In their order: the first that holds decides. Carriers and their functors come before names.
std::span<const NameRule> name_rules();

// nullptr: unknown.
const NameRule* rule_of_kernel(std::string_view normalised);

}  // namespace kl::trace
