#include <lab/core/folders_in_use.hpp>

#include <lab/core/files.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace kl {
namespace {

constexpr std::array<std::string_view, 1> kPrefix = {"kl-stale"};

void make_old(const fs::path& folder) {
  const timespec then[2] = {{::time(nullptr) - 3600, 0}, {::time(nullptr) - 3600, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, folder.c_str(), then, 0), 0);
}

// What a process leaves that is killed.
fs::path left_behind() {
  std::string name = (fs::temp_directory_path() / "kl-stale-XXXXXX").string();
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  EXPECT_TRUE(write_file_atomic(fs::path(name) / "deep" / "weights", "x").ok());
  return name;
}

TEST(folders_in_use, is_known_as_long_as_it_lives) {
  fs::path path;
  {
    const auto folder = TemporaryFolder::create("kl-stale");
    ASSERT_TRUE(folder.ok());
    path = folder->path();
    const auto all = folders_in_use();
    EXPECT_EQ(std::count(all.begin(), all.end(), path), 1);
  }
  EXPECT_FALSE(fs::exists(path));
  const auto all = folders_in_use();
  EXPECT_EQ(std::count(all.begin(), all.end(), path), 0);
}

TEST(folders_in_use, one_whose_process_has_gone_is_removed) {
  const fs::path folder = left_behind();
  remove_stale_folders(kPrefix);
  EXPECT_TRUE(fs::exists(folder)) << "it may not be locked yet";
  make_old(folder);
  remove_stale_folders(kPrefix);
  EXPECT_FALSE(fs::exists(folder));
}

TEST(folders_in_use, one_that_is_in_use_stays_however_old) {
  auto folder = TemporaryFolder::create("kl-stale");
  ASSERT_TRUE(folder.ok());
  const auto moved = std::move(*folder);
  make_old(moved.path());
  remove_stale_folders(kPrefix);
  EXPECT_TRUE(fs::exists(moved.path()));
}

TEST(folders_in_use, other_names_and_links_stay) {
  const fs::path base = fs::temp_directory_path();
  const TemporaryFolder home = *TemporaryFolder::create("kl-home");
  const fs::path other = base / "kl-stale-backups", link = base / "kl-stale-linked";
  fs::remove_all(other);
  fs::remove(link);
  ASSERT_TRUE(fs::create_directory(other));
  make_old(home.path());
  fs::create_directory_symlink(home.path(), link);
  make_old(other);
  remove_stale_folders(kPrefix);
  EXPECT_TRUE(fs::exists(other));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(home.path()));
  fs::remove_all(other);
  fs::remove(link);
}

}  // namespace
}  // namespace kl
