# Run with -P: the SHA-256 of the harness sources, as a C++ constant.
#   SOURCES: list file, one path a line, relative to ROOT; OUTPUT: the .cpp to write.
file(STRINGS ${SOURCES} paths)
list(SORT paths)
set(lines "")
foreach(path IN LISTS paths)
  file(SHA256 ${ROOT}/${path} hash)
  string(APPEND lines "${path} ${hash}\n")
endforeach()
string(SHA256 whole "${lines}")
file(WRITE ${OUTPUT} "#include <lab/verify/harness_hash.hpp>

namespace kl {
std::string_view harness_hash() { return \"${whole}\"; }
}  // namespace kl
")
