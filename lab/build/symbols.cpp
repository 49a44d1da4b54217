// Reads the dynamic symbols of a 64-bit ELF library without loading it, and judges them.
#include <lab/build/loader.hpp>

#include <lab/core/files.hpp>

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace kl {
namespace {

// Bounds-checked views into the file's bytes.
class Elf {
 public:
  explicit Elf(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  bool read(uint64_t offset, T& value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return true;
  }
  std::string string_at(uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    const size_t end = bytes_.find('\0', offset);
    return std::string(bytes_.substr(offset, end == std::string_view::npos ? 0 : end - offset));
  }

 private:
  std::string_view bytes_;
};

// What a kernel may leave undefined: memory and maths functions, the OpenMP run-time's entry
// points for parallel regions, and what compilers emit by themselves.
constexpr std::array kPermitted = {
    "memcpy", "memmove", "memset", "memcmp", "abort", "printf", "puts", "putchar",
    "fprintf", "fputs", "fputc", "fwrite", "vfprintf", "snprintf", "stdout", "stderr",
    "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads", "omp_in_parallel",
    "__stack_chk_fail", "__gmon_start__", "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable", "__cxa_finalize", "__gxx_personality_v0", "_Unwind_Resume",
    "__cxa_begin_catch", "__cxa_end_catch", "__cxa_rethrow", "__cxa_pure_virtual", "_ZSt9terminatev",
    "__tls_get_addr", "__assert_fail"};
constexpr std::array kPermittedPrefixes = {"GOMP_", "__kmpc_", "_ZGV", "__mul", "__div", "__pow", "__trunc",
                                           "__extend", "__float", "__fix", "__asan_", "__ubsan_"};
// The C maths library, without the f and l variants.
constexpr std::array kMaths = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sqrt",
                               "cbrt", "sin", "cos", "sincos", "tan", "asin", "acos", "atan", "atan2",
                               "sinh", "cosh", "tanh", "erf", "erfc", "tgamma", "lgamma", "fmod",
                               "remainder", "fma", "fmax", "fmin", "fabs", "floor", "ceil", "trunc",
                               "round", "nearbyint", "rint", "lrint", "llrint", "lround", "ldexp",
                               "frexp", "scalbn", "copysign", "hypot"};
constexpr std::array kAllocation = {"malloc", "calloc", "realloc", "free", "aligned_alloc",
                                    "posix_memalign", "memalign"};
constexpr std::array kNeeded = {"libm.so", "libc.so", "libgomp.so", "libstdc++.so", "libgcc_s.so",
                                "libomp.so", "ld-linux", "libmvec.so", "libasan.so", "libubsan.so", "libpthread.so"};

// Of the OpenMP run-time, what leaves a parallel region open after the call returns (its threads
// would work on while nobody looks), allocates, or reaches other devices.
bool is_refused_openmp(std::string_view name) {
  if (name.starts_with("GOMP_parallel")) return name.ends_with("_start") || name == "GOMP_parallel_end";
  for (const std::string_view prefix : {"GOMP_target", "GOMP_teams", "GOMP_offload", "GOMP_PLUGIN_",
                                        "GOMP_alloc", "GOMP_free", "__kmpc_alloc", "__kmpc_free"})
    if (name.starts_with(prefix)) return true;
  return false;
}

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_maths(std::string name) {
  if (name.starts_with("__") && name.ends_with("_finite")) name = name.substr(2, name.size() - 9);
  if (contains(kMaths, name)) return true;
  if (!name.empty() && (name.back() == 'f' || name.back() == 'l')) name.pop_back();
  return contains(kMaths, name);
}

bool is_permitted(const std::string& name) {
  if (contains(kPermitted, name) || is_maths(name)) return true;
  if (is_refused_openmp(name)) return false;
  return std::any_of(kPermittedPrefixes.begin(), kPermittedPrefixes.end(),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

// The compiler's start files bring an .init section of a few instructions, and one entry in each
// of the arrays of functions that run when a library is loaded and unloaded.
constexpr uint64_t kStartFileInitBytes = 27;  // 23, or 27 with endbr64: no room for a call
constexpr uint64_t kStartFileArrayBytes = 8;

bool runs_at_load(const Elf64_Dyn& entry, int load_functions) {
  switch (entry.d_tag) {
    case DT_INIT_ARRAYSZ:
      return entry.d_un.d_val > kStartFileArrayBytes * (1 + static_cast<uint64_t>(load_functions));
    case DT_FINI_ARRAYSZ: return entry.d_un.d_val > kStartFileArrayBytes;
    case DT_PREINIT_ARRAYSZ: return entry.d_un.d_val > 0;
    default: return false;
  }
}

// A function that the loader calls to choose another (ifunc) runs at load as well.
bool is_resolver(const Elf64_Ehdr& header, const Elf64_Rela& relocation) {
  const uint64_t type = ELF64_R_TYPE(relocation.r_info);
  return (header.e_machine == EM_X86_64 && type == R_X86_64_IRELATIVE) ||
         (header.e_machine == EM_AARCH64 && type == R_AARCH64_IRELATIVE);
}

}  // namespace

Result<LibrarySymbols> read_symbols(const std::filesystem::path& library, int load_functions) {
  KL_TRY(const std::string content, read_file(library));
  const Elf elf(content);
  const auto broken = [&](std::string_view why) {
    return make_error(Status::load_failed, fmt::format("{} is no usable library: {}", library.string(), why),
                      "build it again");
  };
  Elf64_Ehdr header{};
  if (!elf.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return broken("not a 64-bit ELF file");
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i)
    if (!elf.read(header.e_shoff + i * header.e_shentsize, sections[i])) return broken("truncated");

  LibrarySymbols symbols;
  const uint64_t names = header.e_shstrndx < sections.size() ? sections[header.e_shstrndx].sh_offset : 0;
  for (const auto& section : sections) {
    if (const std::string name = elf.string_at(names + section.sh_name); name == ".init" || name == ".fini")
      symbols.has_constructors |= section.sh_size > kStartFileInitBytes;
    if (section.sh_type == SHT_RELA)
      for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section.sh_size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela relocation{};
        if (!elf.read(section.sh_offset + at, relocation)) return broken("truncated");
        symbols.has_constructors |= is_resolver(header, relocation);
      }
    if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_DYNAMIC) continue;
    if (section.sh_link >= sections.size()) return broken("bad section link");
    const uint64_t strings = sections[section.sh_link].sh_offset;
    if (section.sh_type == SHT_DYNAMIC) {
      for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= section.sh_size; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry{};
        if (!elf.read(section.sh_offset + at, entry)) return broken("truncated");
        symbols.has_constructors |= runs_at_load(entry, load_functions);
        if (entry.d_tag == DT_NEEDED) symbols.needed.push_back(elf.string_at(strings + entry.d_un.d_val));
      }
      continue;
    }
    for (uint64_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol{};
      if (!elf.read(section.sh_offset + at, symbol)) return broken("truncated");
      const std::string name = elf.string_at(strings + symbol.st_name);
      if (name.empty()) continue;
      (symbol.st_shndx == SHN_UNDEF ? symbols.undefined : symbols.exported).push_back(name);
    }
  }
  return symbols;
}

std::vector<std::string> symbol_violations(const LibrarySymbols& symbols,
                                           const RunTimeSymbols& run_time) {
  std::vector<std::string> broken;
  for (const auto& name : symbols.exported)
    if (name != "kl_kernel")
      broken.push_back(fmt::format("exports {}: kl_kernel is the one symbol a kernel exports", name));
  for (const auto& name : symbols.undefined) {
    if (is_permitted(name) || contains(run_time.functions, name)) continue;
    const bool allocates = contains(kAllocation, name) || name.starts_with("_Znw") ||
                           name.starts_with("_Zna") || name.starts_with("_Zdl") || name.starts_with("_Zda");
    broken.push_back(allocates
                         ? fmt::format("calls {}: a kernel allocates nothing, it asks for scratch_bytes", name)
                         : fmt::format("calls {}: outside what a kernel may use", name));
  }
  for (const auto& name : symbols.needed)
    if (std::none_of(kNeeded.begin(), kNeeded.end(), [&](const char* p) { return name.starts_with(p); }))
      broken.push_back(fmt::format("needs {}: a library its target's spec does not list", name));
  if (symbols.has_constructors)
    broken.push_back(
        "runs code when it is loaded or unloaded (a constructor, a dynamically initialised global, .init, an ifunc)");
  return broken;
}

}  // namespace kl
