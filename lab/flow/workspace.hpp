// A workspace: a folder with one mutable kernel file, made from a target's champion.
#pragma once

#include <lab/core/record.hpp>
#include <lab/target/target.hpp>

#include <filesystem>
#include <string>

namespace kl {

// Where the work came from; rank and score of a workspace that `extract` made.
struct WorkspaceContext {
  std::string preset;
  std::string profile;
  int rank = 0;
  double score = 0;
  std::string category;
  std::string rationale;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("preset", self.preset, "trainer operating point the work is for");
    v("profile", self.profile, "profile the candidate was ranked in, or empty");
    v("rank", self.rank, "rank in that profile; 0: none");
    v("score", self.score, "score in that profile");
    v("category", self.category, "category in that profile");
    v("rationale", self.rationale, "why this target");
  }
};

// workspace.json. Nothing in it names its own folder, so a workspace may be moved.
struct WorkspaceRecord {
  static constexpr std::string_view kSchema = "workspace";
  std::string schema = "workspace";
  int schema_version = 1;
  std::string created_at;
  std::string lab_version;
  std::string engine;
  std::string target;
  std::string language;
  std::string metric;
  std::string kernel_file;    // name inside the workspace
  std::string champion_hash;  // SHA-256 of the champion it was copied from
  WorkspaceContext context;
  std::string content_hash;  // of the other fields: a hand edit is seen

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("schema", self.schema, "workspace");
    v("schema_version", self.schema_version, "version of this record");
    v("created_at", self.created_at, "UTC");
    v("lab_version", self.lab_version, "version of Kernel Lab");
    v("engine", self.engine, "kernel substrate");
    v("target", self.target, "key of the target");
    v("language", self.language, "language of the kernel file");
    v("metric", self.metric, "number that decides");
    v("kernel_file", self.kernel_file, "the one file to change");
    v("champion_hash", self.champion_hash, "SHA-256 of the champion it was made from");
    v("context", self.context, "where the work came from");
    v("content_hash", self.content_hash, "SHA-256 of the other fields");
  }
};

struct Workspace {
  std::filesystem::path folder;
  WorkspaceRecord record;

  std::filesystem::path kernel() const { return folder / record.kernel_file; }
};

struct InitRequest {
  const Target* target = nullptr;
  const Engine* engine = nullptr;
  std::filesystem::path folder;  // must not exist, or be empty
  std::string preset;
  std::string language;  // empty: the engine's own
  std::string rationale;
  std::string profile;  // it was ranked in, with the next three; empty: none
  int rank = 0;
  double score = 0;
  std::string category;
};

// Errors: starter_unavailable (no champion for this engine), usage (folder in use, unknown
// language), invalid_workspace (the folder cannot be written).
Result<Workspace> init_workspace(const InitRequest& request);

// Every error is invalid_workspace and says what to do. Where the workspace lies does not matter.
// Only `restore` opens one whose kernel file is gone.
enum class KernelFile : uint8_t { required, may_be_missing };
Result<Workspace> open_workspace(const std::filesystem::path& folder, const Catalogue& catalogue,
                                 KernelFile kernel = KernelFile::required);

// Language of a kernel file name: kernel.cpp is "c++", kernel.cu "cuda", kernel.py "triton" …
std::string language_of(const std::filesystem::path& kernel_file);

inline constexpr std::string_view kWorkspaceMetric = "seam_seconds_per_step";

}  // namespace kl
