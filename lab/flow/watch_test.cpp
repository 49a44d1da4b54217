#include <lab/flow/file_watch.hpp>

#include <lab/core/files.hpp>
#include <lab/flow/watch_log.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

namespace kl {
namespace {

using Event = FileWatch::Event;

class FileWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::pipe(stop_), 0);
    write(file(), "1");
  }
  void TearDown() override {
    for (const int fd : stop_) ::close(fd);
  }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  bool taken() {
    const bool touched = watch_.touched();
    watch_.forget();
    return touched;
  }
  fs::path file() const { return folder_.path() / "kernel.cpp"; }
  // `act` in a thread, while this one waits.
  Event after(const std::function<void()>& act) {
    std::thread actor([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      act();
    });
    const Event event = watch_.wait(stop_[0]);
    actor.join();
    return event;
  }

  TemporaryFolder folder_ = TemporaryFolder::create("kl-watch").value();
  FileWatch watch_ = FileWatch::open(folder_.path() / "kernel.cpp").value();
  int stop_[2] = {-1, -1};
};

TEST_F(FileWatchTest, EveryWayOfSavingIsSeenOnce) {
  EXPECT_TRUE(taken());  // of SetUp
  const std::pair<const char*, std::function<void()>> saves[] = {
      {"in place", [&] { write(file(), "2"); }},
      {"renamed over", [&] { write(folder_.path() / ".new", "3"); fs::rename(folder_.path() / ".new", file()); }},
      {"atomically", [&] { ASSERT_TRUE(write_file_atomic(file(), "4").ok()); }},
      {"moved aside and written anew", [&] { fs::rename(file(), folder_.path() / "kernel.cpp~"); write(file(), "5"); }},
      {"deleted", [&] { fs::remove(file()); }},
      {"back again", [&] { write(file(), "6"); }},
      {"as a hard link", [&] { fs::remove(file()); fs::create_hard_link(folder_.path() / "kernel.cpp~", file()); }},
  };
  for (const auto& [how, save] : saves) {
    EXPECT_EQ(after(save), Event::touched) << how;
    EXPECT_FALSE(taken()) << how;
  }
}

TEST_F(FileWatchTest, OtherFilesAndReadersAreNotSeen) {
  EXPECT_TRUE(taken());
  write(folder_.path() / "kernel.cpp.swp", "x");
  EXPECT_EQ(read_file(file()).value(), "1");
  EXPECT_FALSE(taken());
}

TEST_F(FileWatchTest, AFileThatIsStillBeingWrittenIsNotSaved) {
  EXPECT_TRUE(taken());
  std::ofstream stream(file(), std::ios::app);
  stream << "half" << std::flush;
  EXPECT_FALSE(taken());
  stream.close();
  EXPECT_TRUE(taken());
}

TEST_F(FileWatchTest, AStopAndAFolderThatIsGoneEndTheWait) {
  EXPECT_TRUE(taken());
  EXPECT_EQ(after([&] { EXPECT_EQ(::write(stop_[1], "x", 1), 1); }), Event::stopped);
  char drained = 0;
  EXPECT_EQ(::read(stop_[0], &drained, 1), 1);
  EXPECT_EQ(after([&] { fs::remove_all(folder_.path()); }), Event::folder_gone);
}

WatchRound round(Status verify, std::optional<Status> bench, double ratio) {
  return {"", "", verify, "", bench, "", ratio};
}

TEST(watch_log, the_best_is_right_and_fairly_timed) {
  EXPECT_EQ(best_round({}), std::nullopt);
  const std::vector<WatchRound> rounds = {
      round(Status::ok, Status::regressed, 1.2),    round(Status::mismatch, std::nullopt, 0),
      round(Status::ok, Status::improved, 0.8),     round(Status::ok, Status::rejected, 0.1),
      round(Status::ok, Status::inconclusive, 0.9), round(Status::mismatch, Status::improved, 0.5),
      round(Status::ok, std::nullopt, 0)};
  EXPECT_EQ(best_round(rounds), 2u);
}

}  // namespace
}  // namespace kl
