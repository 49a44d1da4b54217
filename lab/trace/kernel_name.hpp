// Kernel names, whatever tool spelt them: one spelling, and the parts by which they are known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kl::trace {

// Demangled, without return type, parameter lists, ABI tags, clone suffixes, `const` and inline namespaces of
// versions; literals without casts and suffixes (`128` for `(int)128` and `128u`), `(anonymous namespace)`,
// `{lambda(float)#3}`. Linear in the name's length, for any bytes.
std::string normalise_kernel_name(std::string_view name);

// One path of a normalised name ("at::native::FillFunctor"), folded to what rules compare: letters and digits in lower
// case, and where words begin ("layer_norm", "LayerNorm" and "layernorm" begin alike).
class NamePart {
 public:
  NamePart(std::string_view path, int depth);

  // Whether `word` ("layernorm") is there as whole words; "norm*" may end inside one, "*gemm" begin inside one.
  bool has(std::string_view word) const;
  const std::string& folded() const { return folded_; }
  int depth() const { return depth_; }  // of template arguments around it; 0: the kernel's own name

 private:
  std::string folded_;
  std::vector<bool> begins_;  // by letter, and one behind the last
  int depth_;
};

// The innermost first; those of one depth in the name's order.
std::vector<NamePart> parts_of(std::string_view normalised);

}  // namespace kl::trace
