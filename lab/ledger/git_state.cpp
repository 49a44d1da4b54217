#include <lab/ledger/git_state.hpp>

#include <lab/core/process.hpp>

namespace kl {

GitState git_state(const std::filesystem::path& folder) {
  const auto git = [&](std::vector<std::string> arguments) {
    Command command;
    command.arguments = {"git", "--no-optional-locks"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.folder = folder;
    command.timeout_seconds = 10;
    return run_process(command);
  };
  GitState state;
  const auto head = git({"rev-parse", "--verify", "-q", "HEAD"});
  if (!head.ok() || !head->ok()) return state;
  state.commit = head->out.substr(0, head->out.find('\n'));
  const auto changes = git({"status", "--porcelain", "--untracked-files=no"});
  state.dirty = !changes.ok() || !changes->ok() || !changes->out.empty();
  return state;
}

}  // namespace kl
