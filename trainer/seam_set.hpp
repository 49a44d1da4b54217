// The seam table of a preset: which target fills which seam at which shapes, and the libraries
// that hold them.
#pragma once

#include <lab/build/builder.hpp>
#include <trainer/config.hpp>
#include <trainer/library_seam.hpp>
#include <trainer/seam.hpp>

#include <map>
#include <span>

namespace kl::trainer {

// A shape at which the step calls a seam (docs/trainer-protocol.md).
struct SeamCall {
  std::map<std::string, int64_t> axes;
  std::string dtype = "f32";
  std::map<std::string, double> scalars;
  std::vector<std::string> absent;
  int64_t calls_per_step = 0;  // forward; each has one backward

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("axes", self.axes, "length of each named axis");
    v("dtype", self.dtype, "element type");
    v("scalars", self.scalars, "scalar arguments");
    v("absent", self.absent, "optional inputs that are not passed");
    v("calls_per_step", self.calls_per_step, "forward calls in one step");
  }
};
struct SeamDescription {
  std::string seam;
  std::string target;
  std::vector<SeamCall> shapes;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("seam", self.seam, "place in the step");
    v("target", self.target, "target whose library fills it");
    v("shapes", self.shapes, "shapes at which the step calls it");
  }
};
std::vector<SeamDescription> describe_seams(const Config& config);

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
Result<SeamFiles> champion_files(const Config& config, const Engine& engine, const Builder& builder);

// With hashes as found: a seam too many or too few, or another hash than the plan's, is an error.
Result<SeamFiles> checked_files(const Config& config, const SeamFiles& wanted);

class SeamSet : public Seams<float> {
 public:
  // `files` holds every seam of the preset and no other; hashes that do not match are refused.
  static Result<std::unique_ptr<SeamSet>> open(const Config& config, const SeamFiles& files,
                                               std::span<const int32_t> token_bytes, int threads);

  void rmsnorm_forward(int site, const float* x, float* y) override;
  void rmsnorm_backward(int site, const float* dy, const float* x, float* dx) override;
  void activation_forward(int site, const float* h, float* y) override;
  void activation_backward(int site, const float* dy, const float* h, float* dh) override;
  void loss_forward(const float* logits, const int32_t* targets, float* nll) override;
  void loss_backward(float g, const float* logits, const int32_t* targets, float* dlogits) override;

  Outcome perturb(const std::string& seam, uint64_t seed);
  std::map<std::string, SeamCounts> counts() const;
  const SeamFiles& files() const { return files_; }  // with hashes as loaded
  Outcome fault() const;

 private:
  SeamSet(LibrarySeam rmsnorm, LibrarySeam activation, LibrarySeam loss, std::span<const int32_t> bytes)
      : rmsnorm_(std::move(rmsnorm)), activation_(std::move(activation)), loss_(std::move(loss)),
        token_bytes_(bytes.begin(), bytes.end()) {}
  LibrarySeam rmsnorm_, activation_, loss_;
  std::vector<int32_t> token_bytes_;
  double nll_sum_ = 0, byte_sum_ = 0;
  SeamFiles files_;
};

}  // namespace kl::trainer
