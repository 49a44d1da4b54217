// Which commit a measurement was made on.
#pragma once

#include <filesystem>
#include <string>

namespace kl {

struct GitState {
  std::string commit;  // empty outside a repository, before the first commit or without git
  bool dirty = false;  // tracked files differ from the commit
};
GitState git_state(const std::filesystem::path& folder);

}  // namespace kl
