// The scratch folders of trainer runs: weights and events, up to gigabytes.
#pragma once

namespace kl::app {

// While it lives, SIGINT, SIGTERM and SIGHUP end the process as they always do, and what it has in the
// temporary folder goes with it. What earlier runs left there that were killed outright goes first.
class TrainerFolders {
 public:
  TrainerFolders();
  TrainerFolders(const TrainerFolders&) = delete;
  TrainerFolders& operator=(const TrainerFolders&) = delete;
  ~TrainerFolders();
};

}  // namespace kl::app
