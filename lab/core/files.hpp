// Files: reading whole, replacing atomically, content-addressed storage.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace kl {

namespace fs = std::filesystem;

Result<std::string> read_file(const fs::path& path);
// Writes beside the target, syncs and renames: readers see the old content or the new, never half.
Outcome write_file_atomic(const fs::path& path, std::string_view content);
Outcome make_directories(const fs::path& path);

// A folder for scratch that is removed with the object.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create(std::string_view prefix);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  ~TemporaryFolder();
  const fs::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// Content-addressed files: `put` stores under the SHA-256 of the content and returns it.
class ObjectStore {
 public:
  explicit ObjectStore(fs::path root) : root_(std::move(root)) {}
  // `suffix` such as ".cpp" keeps the stored file readable by tools.
  Result<std::string> put(std::string_view content, std::string_view suffix) const;
  Result<std::string> get(std::string_view hash_or_prefix) const;
  Result<fs::path> find(std::string_view hash_or_prefix) const;
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

}  // namespace kl
