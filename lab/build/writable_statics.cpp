// What is writable is read from the segments, which are what the loader obeys; sections and symbols
// only give it names.
#include <lab/build/writable_statics.hpp>

#include <lab/build/elf_file.hpp>

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace kl {
namespace {

struct Range {
  uint64_t begin = 0, end = 0;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  uint64_t bytes() const { return end - begin; }
};

struct Named {
  std::string name;
  Range at;
};

constexpr uint64_t kPageBytes = 4096;  // the loader protects whole pages

// The part of a library that the loader makes read-only after relocating it.
Range read_only_after_relocation(const ElfFile& elf) {
  Range found;
  for (const Elf64_Phdr& segment : elf.segments())
    if (segment.p_type == PT_GNU_RELRO)
      found = {segment.p_vaddr / kPageBytes * kPageBytes,
               (segment.p_vaddr + segment.p_memsz) / kPageBytes * kPageBytes};
  return found;
}

std::vector<Range> writable_ranges(const ElfFile& elf) {
  const Range fixed = read_only_after_relocation(elf);
  std::vector<Range> writable;
  for (const Elf64_Phdr& segment : elf.segments()) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    const Range all{segment.p_vaddr, segment.p_vaddr + segment.p_memsz};
    for (const Range part : {Range{all.begin, std::min(all.end, fixed.begin)},
                             Range{std::max(all.begin, fixed.end), all.end}})
      if (part.begin < part.end) writable.push_back(part);
  }
  return writable;
}

// The compiler's start files have these in every library that is linked with them.
bool is_of_start_files(std::string_view name) {
  return name == "__dso_handle" || name.starts_with("completed.");
}

// Written by the compiler where an exception may pass through a function that has to clean up.
bool is_unwinders(std::string_view name) { return name == "DW.ref.__gxx_personality_v0"; }

bool is_compilers(std::string_view name, const RunTimeSymbols& run_time) {
  return is_unwinders(name) || (run_time.start_files && is_of_start_files(name)) ||
         (run_time.is_compilers_object != nullptr && run_time.is_compilers_object(name));
}

std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? std::string(text.get()) : symbol;
}

// The objects of a section by address. __dso_handle is a pointer, and its symbol has no size.
Result<std::vector<Named>> objects_in(const ElfFile& elf, size_t section) {
  std::vector<Named> objects;
  for (const Elf64_Shdr& table : elf.sections()) {
    if (table.sh_type != SHT_SYMTAB) continue;
    KL_TRY(const auto symbols, elf.table<Elf64_Sym>(table));
    for (const Elf64_Sym& symbol : symbols) {
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      if (symbol.st_shndx != section || (type != STT_OBJECT && type != STT_TLS)) continue;
      KL_TRY(std::string name, elf.linked_name(table, symbol.st_name));
      const uint64_t bytes = name == "__dso_handle" ? sizeof(void*) : symbol.st_size;
      if (bytes > 0) objects.push_back({std::move(name), {symbol.st_value, symbol.st_value + bytes}});
    }
  }
  std::sort(objects.begin(), objects.end(),
            [](const Named& a, const Named& b) { return a.at.begin < b.at.begin; });
  return objects;
}

// Bytes of a section that belong to no object, beyond what aligning the objects and the section's end
// leaves. Of a thread-local section nothing is the compiler's own: its objects have said enough.
uint64_t unnamed_bytes(const Elf64_Shdr& section, const std::vector<Named>& objects) {
  if (objects.empty()) return section.sh_size;
  if ((section.sh_flags & SHF_TLS) != 0) return 0;
  uint64_t at = section.sh_addr, unnamed = 0;
  const auto add_gap = [&](uint64_t end) {
    const uint64_t gap = end > at ? end - at : 0;
    if (gap >= std::max<uint64_t>(section.sh_addralign, sizeof(void*))) unnamed += gap;
  };
  for (const Named& object : objects) {
    add_gap(object.at.begin);
    at = std::max(at, object.at.end);
  }
  add_gap(section.sh_addr + section.sh_size);
  return unnamed;
}

}  // namespace

Result<std::vector<std::string>> writable_statics(const std::filesystem::path& library,
                                                  const RunTimeSymbols& run_time) {
  KL_TRY(const ElfFile elf, ElfFile::open(library));
  const std::vector<Range> writable = writable_ranges(elf);
  std::vector<std::string> found;
  std::vector<bool> explained(writable.size(), false);
  for (size_t i = 0; i < elf.sections().size(); ++i) {
    const Elf64_Shdr& section = elf.sections()[i];
    if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_size == 0) continue;
    // A thread-local section is a pattern of which each thread has a writable copy.
    bool is_writable = (section.sh_flags & SHF_TLS) != 0;
    if (!is_writable)
      for (size_t r = 0; r < writable.size(); ++r)
        if (writable[r].overlaps({section.sh_addr, section.sh_addr + section.sh_size}))
          is_writable = explained[r] = true;
    if (!is_writable) continue;
    KL_TRY(const auto objects, objects_in(elf, i));
    for (const Named& object : objects)
      if (!is_compilers(object.name, run_time))
        found.push_back(fmt::format("{} ({} bytes in {})", readable(object.name), object.at.bytes(), elf.name(section)));
    if (const uint64_t bytes = unnamed_bytes(section, objects); bytes > 0)
      found.push_back(fmt::format("{} bytes without a name in {}", bytes, elf.name(section)));
  }
  for (size_t r = 0; r < writable.size(); ++r)
    if (!explained[r]) found.push_back(fmt::format("{} bytes of no section", writable[r].bytes()));
  return found;
}

}  // namespace kl
