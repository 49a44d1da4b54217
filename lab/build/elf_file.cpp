#include <lab/build/elf_file.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {

Result<ElfFile> ElfFile::open(const std::filesystem::path& path) {
  KL_TRY(std::string bytes, read_file(path));
  ElfFile file(std::move(bytes), path.string());
  Elf64_Ehdr& header = file.header_;
  if (!file.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return file.broken("not a 64-bit ELF file");
  file.sections_.resize(header.e_shnum);
  for (size_t i = 0; i < file.sections_.size(); ++i)
    if (!file.read(header.e_shoff + i * header.e_shentsize, file.sections_[i])) return file.broken("truncated");
  file.segments_.resize(header.e_phnum);
  for (size_t i = 0; i < file.segments_.size(); ++i)
    if (!file.read(header.e_phoff + i * header.e_phentsize, file.segments_[i])) return file.broken("truncated");
  return file;
}

std::string ElfFile::name(const Elf64_Shdr& section) const {
  if (header_.e_shstrndx >= sections_.size()) return {};
  return string_at(sections_[header_.e_shstrndx].sh_offset + section.sh_name);
}

Result<std::string> ElfFile::linked_name(const Elf64_Shdr& table, uint64_t offset) const {
  if (table.sh_link >= sections_.size()) return broken("bad section link");
  return string_at(sections_[table.sh_link].sh_offset + offset);
}

size_t ElfFile::whole_entries(const Elf64_Shdr& section, size_t entry_bytes) const {
  return std::min<uint64_t>(section.sh_size, bytes_.size()) / entry_bytes;
}

std::string ElfFile::string_at(uint64_t offset) const {
  if (offset >= bytes_.size()) return {};
  const size_t end = bytes_.find('\0', offset);
  return bytes_.substr(offset, end == std::string::npos ? 0 : end - offset);
}

Error ElfFile::broken(std::string_view why) const {
  return make_error(Status::load_failed, fmt::format("{} is no usable library: {}", path_, why),
                    "build it again");
}

}  // namespace kl
