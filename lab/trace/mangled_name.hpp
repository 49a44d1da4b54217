// Names as C++ compilers mangle them (the Itanium C++ ABI, section 5.1).
#pragma once

#include <string>
#include <string_view>

namespace kl::trace {

// "_ZN2at6native4copyIfEEvPT_" → "void at::native::copy<float>(float*)". What the C++ library cannot demangle (types newer
// than it) or could only at an exponential length is read for its identifiers and literals alone. Anything that
// does not begin with _Z comes back as it is.
std::string demangle(std::string_view name);

}  // namespace kl::trace
