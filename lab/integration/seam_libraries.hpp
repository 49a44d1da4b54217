// The libraries that fill a preset's seams: every seam holds its target's champion.
#pragma once

#include <lab/build/builder.hpp>
#include <lab/integration/trainer_client.hpp>
#include <lab/target/target.hpp>

#include <vector>

namespace kl {

SeamLibrary seam_library(const BuiltLibrary& built);

// Builds the champion of every seam's target. Errors name the seam, and carry the compiler's words.
Result<SeamLibraries> champion_libraries(const Engine& engine, const Builder& builder,
                                         const Catalogue& catalogue,
                                         const std::vector<TrainerSeam>& seams);

// Hash of every library but that of `except`: part of the evidence's identity.
std::string seams_hash(const SeamLibraries& libraries, std::string_view except);

}  // namespace kl
