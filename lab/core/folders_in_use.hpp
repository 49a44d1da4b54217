// Temporary folders and the processes that use them: one whose process was killed is found and removed.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace kl {

// Locks the folder until it is released, so that others can tell that it is in use.
void take_folder(const std::filesystem::path& folder);
void release_folder(const std::filesystem::path& folder);
// Those that this process has taken.
std::vector<std::filesystem::path> folders_in_use();

// Removes folders PREFIX-XXXXXX of the temporary folder that no process uses. Those of another user, or
// younger than a minute (not locked yet, perhaps), are left alone.
void remove_stale_folders(std::span<const std::string_view> prefixes);

}  // namespace kl
