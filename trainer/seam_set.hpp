// The libraries that hold the seams of a preset, opened at its shapes.
#pragma once

#include <lab/build/builder.hpp>
#include <trainer/config.hpp>
#include <trainer/library_seam.hpp>
#include <trainer/seam_table.hpp>

#include <map>
#include <memory>

namespace kl::trainer {

struct SeamFile {
  std::string path;
  std::string source_hash;
  std::string library_hash;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("path", self.path, "library file");
    v("source_hash", self.source_hash, "SHA-256 of its source");
    v("library_hash", self.library_hash, "SHA-256 of the file");
  }
};
using SeamFiles = std::map<std::string, SeamFile>;  // by seam

// Builds the champion of every seam's target, found on the target search path.
Result<SeamFiles> champion_files(const Config& config, const Engine& engine,
                                 const Builder& builder);

// With hashes as found: a seam too many or too few, or another hash than the plan's, is an error.
Result<SeamFiles> checked_files(const Config& config, const SeamFiles& wanted);

class SeamSet : public Seams<float> {
 public:
  // `files` holds every seam of the preset and no other; hashes that do not match are refused.
  static Result<std::unique_ptr<SeamSet>> open(const Config& config, const SeamFiles& files,
                                               int threads);

  void run(Seam seam, int operation, int site, std::initializer_list<const void*> inputs,
           std::initializer_list<void*> outputs) override;

  Outcome perturb(const std::string& seam, uint64_t seed);
  std::map<std::string, SeamCounts> counts() const;
  const SeamFiles& files() const { return files_; }  // with hashes as loaded
  Outcome fault() const;

 private:
  std::map<Seam, LibrarySeam> seams_;
  SeamFiles files_;
};

}  // namespace kl::trainer
