// Memory of a library in which a kernel could remember from one call to the next.
#pragma once

#include <lab/core/result.hpp>
#include <lab/engine/engine.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace kl {

// Static objects that stay writable once the library is loaded and relocated, thread-local ones
// too: each with its name, or its section where it has none, and its size. `run_time` says what an
// engine's own compiler puts there. load_failed when the file is no library.
Result<std::vector<std::string>> writable_statics(const std::filesystem::path& library,
                                                  const RunTimeSymbols& run_time = {});

}  // namespace kl
