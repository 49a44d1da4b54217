// The builder: source + flags + device → a cached shared library with a compile report.
// Champions, candidates, references and oracles are all built here.
#pragma once

#include <lab/build/loader.hpp>
#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>

#include <filesystem>
#include <optional>
#include <string>

namespace kl {

// Why a library is refused before it ever runs, as records say it.
struct BrokenRule {
  std::string rule;
  std::string proof;
  std::string remedy;
};

struct BuiltLibrary {
  std::filesystem::path path;    // content-addressed in the cache
  std::string source_hash;       // SHA-256 of the source
  std::string flags_hash;        // SHA-256 of compiler, flags and device
  std::string library_hash;      // SHA-256 of the library file
  bool from_cache = false;
  CompileReport report;
  // Kernels: what the library uses or does that a kernel may not; see symbol_violations.
  std::vector<std::string> violations;
  // Kernels: static objects in which one could count or keep answers; see writable_statics.
  std::vector<std::string> writable;

  std::optional<BrokenRule> broken_rule() const;  // of the two lists; none when both are empty
};

struct BuildRequest {
  std::filesystem::path source;
  std::string sanitizer;                            // "", "address", "undefined"
  std::vector<std::filesystem::path> include_dirs;  // empty: the installation's include/
};

// Cache key: everything that decides the bytes (source, headers of include/kernel_lab, flags,
// compiler, device). Two builds of the same thing at once both succeed. Errors: build_failed with
// the compiler's message, missing_tool with the remedy.
class Builder {
 public:
  explicit Builder(const Engine& engine);  // caches under cache_folder()/libraries
  Builder(const Engine& engine, std::filesystem::path cache);
  Result<BuiltLibrary> build(const BuildRequest& request) const;
  // Oracles: C++, built for the judging process (never contracted or reordered arithmetic).
  Result<BuiltLibrary> build_oracle(const std::filesystem::path& source) const;

 private:
  const Engine& engine_;
  std::filesystem::path cache_;
};

// A target's oracle, built and loaded. One that does not compile or is another target's is the target's
// fault and not a candidate's: unsupported_target, with the compiler's words.
Result<OracleLibrary> open_oracle(const Builder& builder, const std::filesystem::path& source,
                                  std::string_view target);

}  // namespace kl
