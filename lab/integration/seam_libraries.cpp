#include <lab/integration/seam_libraries.hpp>

#include <lab/core/hash.hpp>

#include <fmt/format.h>

namespace kl {

SeamLibrary seam_library(const BuiltLibrary& built) {
  return {built.path, built.source_hash, built.library_hash};
}

Result<SeamLibraries> champion_libraries(const Engine& engine, const Builder& builder,
                                         const Catalogue& catalogue,
                                         const std::vector<TrainerSeam>& seams) {
  SeamLibraries libraries;
  for (const auto& seam : seams) {
    KL_TRY(const auto target, catalogue.find(seam.target));
    const auto champion = target.champion(engine);
    if (!champion)
      return make_error(Status::starter_unavailable,
                        fmt::format("seam {} needs target {}, which has no kernel for engine {}", seam.seam,
                                    target.key, engine.name()),
                        fmt::format("add a kernel to {}", target.folder.string()));
    KL_TRY(const auto built, builder.build({.source = *champion}));
    libraries[seam.seam] = seam_library(built);
  }
  return libraries;
}

std::string seams_hash(const SeamLibraries& libraries, std::string_view except) {
  std::string all;
  for (const auto& [seam, library] : libraries)
    if (seam != except) all += fmt::format("{}={};", seam, library.source_hash);
  return sha256_hex(all);
}

}  // namespace kl
