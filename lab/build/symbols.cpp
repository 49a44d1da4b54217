// Reads the dynamic symbols of a 64-bit ELF library without loading it, and judges them.
#include <lab/build/loader.hpp>

#include <lab/build/elf_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kl {
namespace {

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

// The compiler's start files bring an .init and a .fini section of a few instructions, and one entry
// in each of the arrays of functions that run when a library is loaded and unloaded.
constexpr uint64_t kStartFileInitBytes = 27;  // 23, or 27 with endbr64: no room for a call
constexpr uint64_t kArrayEntryBytes = 8;

bool runs_at_load(const Elf64_Dyn& entry, const RunTimeSymbols& run_time) {
  const uint64_t brought = run_time.start_files ? 1 : 0;
  const uint64_t expected = brought + static_cast<uint64_t>(run_time.load_functions);
  switch (entry.d_tag) {
    case DT_INIT:
    case DT_FINI: return !run_time.start_files;
    case DT_INIT_ARRAYSZ: return entry.d_un.d_val > kArrayEntryBytes * expected;
    case DT_FINI_ARRAYSZ: return entry.d_un.d_val > kArrayEntryBytes * brought;
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

Result<LibrarySymbols> read_symbols(const std::filesystem::path& library, const RunTimeSymbols& run_time) {
  KL_TRY(const ElfFile elf, ElfFile::open(library));
  LibrarySymbols symbols;
  for (const Elf64_Shdr& section : elf.sections()) {
    if (const std::string name = elf.name(section); name == ".init" || name == ".fini")
      symbols.has_constructors |= section.sh_size > (run_time.start_files ? kStartFileInitBytes : 0);
    if (section.sh_type == SHT_RELA) {
      KL_TRY(const auto relocations, elf.table<Elf64_Rela>(section));
      for (const Elf64_Rela& relocation : relocations)
        symbols.has_constructors |= is_resolver(elf.header(), relocation);
    }
    if (section.sh_type == SHT_DYNAMIC) {
      KL_TRY(const auto entries, elf.table<Elf64_Dyn>(section));
      for (const Elf64_Dyn& entry : entries) {
        symbols.has_constructors |= runs_at_load(entry, run_time);
        if (entry.d_tag != DT_NEEDED) continue;
        KL_TRY(std::string needed, elf.linked_name(section, entry.d_un.d_val));
        symbols.needed.push_back(std::move(needed));
      }
    }
    if (section.sh_type == SHT_DYNSYM) {
      KL_TRY(const auto entries, elf.table<Elf64_Sym>(section));
      for (const Elf64_Sym& symbol : entries) {
        KL_TRY(std::string name, elf.linked_name(section, symbol.st_name));
        if (name.empty()) continue;
        (symbol.st_shndx == SHN_UNDEF ? symbols.undefined : symbols.exported).push_back(std::move(name));
      }
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
