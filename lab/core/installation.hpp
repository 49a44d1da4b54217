// Where the lab's own files are. The build tree mirrors the install tree (bin/ beside
// share/kernel-lab/), so there is one way to find them.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <string_view>
#include <vector>

namespace kl {

struct Installation {
  std::filesystem::path bin;      // kernel-lab, kernel-lab-worker, kernel-lab-train
  std::filesystem::path include;  // what kernels and oracles compile against
  std::filesystem::path targets;
  std::filesystem::path presets;
  std::filesystem::path examples;

  static Installation find();  // relative to the running executable, or $KERNEL_LAB_HOME/bin
};

// Folders searched for targets, first match wins: `extra`, ./targets, the installation's.
std::vector<std::filesystem::path> target_search_path(const std::vector<std::filesystem::path>& extra);

// Caches (compiled libraries, tokenised corpora): $KERNEL_LAB_CACHE, else
// $XDG_CACHE_HOME/kernel-lab, else ~/.cache/kernel-lab.
std::filesystem::path cache_folder();

}  // namespace kl
