#include <lab/ledger/git_state.hpp>

#include <lab/core/files.hpp>
#include <lab/core/process.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

void git(const fs::path& folder, std::vector<std::string> arguments) {
  Command command;
  command.arguments = {
      "git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  command.folder = folder;
  const auto done = run_process(command);
  ASSERT_TRUE(done.ok() && done->ok()) << (done.ok() ? done->err : done.error().what);
}

TEST(GitState, KnowsTheCommitAndWhetherTrackedFilesDiffer) {
  const auto folder = TemporaryFolder::create("kl-git").value();
  EXPECT_EQ(git_state(folder.path()).commit, "");
  git(folder.path(), {"init", "-q"});
  EXPECT_EQ(git_state(folder.path()).commit, "");
  ASSERT_TRUE(write_file_atomic(folder.path() / "a", "1").ok());
  git(folder.path(), {"add", "a"});
  git(folder.path(), {"commit", "-q", "-m", "a"});
  EXPECT_EQ(git_state(folder.path()).commit.size(), 40u);
  EXPECT_FALSE(git_state(folder.path()).dirty);
  ASSERT_TRUE(write_file_atomic(folder.path() / "a", "2").ok());
  EXPECT_TRUE(git_state(folder.path()).dirty);
}

}  // namespace
}  // namespace kl
