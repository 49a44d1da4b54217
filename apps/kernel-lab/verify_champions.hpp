// Every champion of an engine through verify, one line each as it is judged.
#pragma once

#include "command.hpp"

#include <optional>
#include <string>

namespace kl::app {

struct ChampionsRun {
  std::string target;  // key or alias; empty: every target that has a champion
  std::string preset;
  bool full = false;
  bool sanitize = false;
  bool resume = false;  // leave out what a verify on file has passed, if nothing that entered it changed
  std::optional<uint64_t> seed;
};

// A champion that fails does not end the run; each is on file as soon as it is judged.
Result<Answer> verify_champions(Context& context, const ChampionsRun& run);

}  // namespace kl::app
