#include <lab/flow/promotion.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/hash.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace kl {
namespace {

constexpr std::string_view kProvenanceFile = "provenance.json";

Error refused(std::string what, std::string remedy) {
  return make_error(Status::refused, std::move(what), std::move(remedy));
}

// Two promotions of one folder at once: the second sees what the first left.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_;
};

Result<ProvenanceFile> read_provenance_file(const fs::path& folder) {
  const fs::path path = folder / kProvenanceFile;
  std::error_code code;
  if (!fs::exists(path, code)) return ProvenanceFile{};
  KL_TRY(const Json json, read_json_file(path));
  auto file = from_json<ProvenanceFile>(json);
  if (!file.ok())
    return make_error(Status::error, fmt::format("{}: {}", path.string(), file.error().what),
                      "restore that file");
  return file;
}

Result<PromotionPatch> patch_of(const fs::path& champion, std::string_view before,
                                std::string_view after) {
  const std::string shown = fmt::format("targets/{}/{}", champion.parent_path().filename().string(),
                                        champion.filename().string());
  PromotionPatch patch;
  KL_TRY(patch.diff,
         diff_sources(before, after, fmt::format("a/{}", shown), fmt::format("b/{}", shown)));
  patch.from_hash = sha256_hex(before);
  patch.to_hash = sha256_hex(after);
  return patch;
}

}  // namespace

Result<PromotionPatch> promotion_patch(const fs::path& champion, std::string_view source) {
  KL_TRY(const std::string before, read_file(champion));
  return patch_of(champion, before, source);
}

Result<Provenance> apply_promotion(const PromotionRequest& request) {
  const fs::path folder =
      request.champion.has_parent_path() ? request.champion.parent_path() : fs::path(".");
  const FolderLock lock(folder);
  KL_TRY(const std::string before, read_file(request.champion));
  KL_TRY(const PromotionPatch patch, patch_of(request.champion, before, request.source));
  if (!request.verified_hash.empty() && patch.to_hash != request.verified_hash)
    return refused(
        fmt::format("the kernel is not the one that was verified: {:.12} now, {:.12} then",
                    patch.to_hash, request.verified_hash),
        "run promote again: it verifies what is there now");
  if (!request.forced && patch.from_hash != request.made_from)
    return refused(
        fmt::format("the champion changed since this candidate was made: {:.12} now, {:.12} then",
                    patch.from_hash, request.made_from),
        "make a workspace from the new champion and bring your change over; --force --why "
        "overrides");
  if (patch.from_hash == patch.to_hash)
    return refused("the candidate is the champion already", "change the kernel first");
  KL_TRY(ProvenanceFile file, read_provenance_file(folder));
  if (request.objects != nullptr) {
    const std::string suffix = request.champion.extension().string();
    KL_CHECK(request.objects->put(before, suffix));
    KL_CHECK(request.objects->put(request.source, suffix));
  }

  Provenance provenance = request.provenance;
  provenance.kernel_hash = patch.to_hash;
  provenance.from_hash = patch.from_hash;
  provenance.promoted_at = utc_now();
  provenance.lab_version = kLabVersion;
  provenance.lines_added = patch.diff.lines_added;
  provenance.lines_removed = patch.diff.lines_removed;
  provenance.forced = request.forced;
  file.champions[request.champion.filename().string()] = provenance;

  KL_CHECK(write_file_atomic(request.champion, request.source));
  if (auto written = write_file_atomic(folder / kProvenanceFile, dump_pretty(to_json(file)) + "\n");
      !written.ok()) {
    if (auto undone = write_file_atomic(request.champion, before); !undone.ok())
      return make_error(
          Status::error,
          fmt::format("{}; and the champion could not be put back: {}", written.error().what,
                      undone.error().what),
          fmt::format("restore {} from object {:.12}", request.champion.string(), patch.from_hash));
    return make_error(written.error().status, written.error().what + "; the champion was put back",
                      written.error().remedy);
  }
  return provenance;
}

Result<std::optional<Provenance>> read_provenance(const fs::path& champion) {
  KL_TRY(const ProvenanceFile file, read_provenance_file(champion.parent_path()));
  const auto it = file.champions.find(champion.filename().string());
  if (it == file.champions.end()) return std::optional<Provenance>();
  return std::optional<Provenance>(it->second);
}

}  // namespace kl
