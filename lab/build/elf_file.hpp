// A 64-bit ELF library's headers and tables, read from its bytes without loading it.
#pragma once

#include <lab/core/result.hpp>

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

class ElfFile {
 public:
  // load_failed when it is no 64-bit ELF file or ends before its headers do.
  static Result<ElfFile> open(const std::filesystem::path& path);

  const Elf64_Ehdr& header() const { return header_; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  std::string name(const Elf64_Shdr& section) const;

  // The section as a table of T (Elf64_Sym, Elf64_Dyn, Elf64_Rela); load_failed when it is cut off.
  template <class T>
  Result<std::vector<T>> table(const Elf64_Shdr& section) const {
    std::vector<T> entries(section.sh_type == SHT_NOBITS ? 0 : whole_entries(section, sizeof(T)));
    for (size_t i = 0; i < entries.size(); ++i)
      if (!read(section.sh_offset + i * sizeof(T), entries[i])) return broken("truncated");
    return entries;
  }
  // A name in the string table that `table` is linked with; load_failed when there is none.
  Result<std::string> linked_name(const Elf64_Shdr& table, uint64_t offset) const;

 private:
  ElfFile(std::string bytes, std::string path) : bytes_(std::move(bytes)), path_(std::move(path)) {}
  template <class T>
  bool read(uint64_t offset, T& value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return true;
  }
  // At most as many as the file has bytes for, so that a forged size asks for no memory.
  size_t whole_entries(const Elf64_Shdr& section, size_t entry_bytes) const;
  std::string string_at(uint64_t offset) const;
  Error broken(std::string_view why) const;

  std::string bytes_;
  std::string path_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Phdr> segments_;
};

}  // namespace kl
