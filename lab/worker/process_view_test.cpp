#include <lab/core/files.hpp>
#include <lab/worker/process_view.hpp>

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace kl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One page of a file, mapped as long as this lives.
class Mapping {
 public:
  explicit Mapping(const fs::path& path) {
    EXPECT_TRUE(write_file_atomic(path, "contents").ok());
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    at_ = ::mmap(nullptr, 1, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    EXPECT_NE(at_, MAP_FAILED);
  }
  Mapping(const Mapping&) = delete;
  ~Mapping() { ::munmap(at_, 1); }

 private:
  void* at_ = nullptr;
};

class MappedFiles : public ::testing::Test {
 protected:
  static ProcessView look() { return view_process(::getpid(), 0, 0); }
  fs::path file(const char* name) const { return folder_.path() / name; }

  TemporaryFolder folder_ = TemporaryFolder::create("process-view-test").value();
};

TEST_F(MappedFiles, shows_what_is_new) {
  const Mapping old(file("old"));
  const ProcessView before = look();
  EXPECT_THAT(newly_mapped(before, look()), IsEmpty());
  const Mapping added(file("added"));
  EXPECT_THAT(newly_mapped(before, look()), ElementsAre(file("added").string()));
}

TEST_F(MappedFiles, knows_a_file_that_was_unlinked_since) {
  const Mapping old(file("old"));
  const ProcessView before = look();
  fs::remove(file("old"));
  ASSERT_TRUE(look().mapped_files.contains(file("old").string() + " (deleted)"));
  EXPECT_THAT(newly_mapped(before, look()), IsEmpty());
}

TEST_F(MappedFiles, shows_a_new_file_that_is_unlinked_at_once) {
  const ProcessView before = look();
  const Mapping added(file("added"));
  fs::remove(file("added"));
  EXPECT_THAT(newly_mapped(before, look()), ElementsAre(file("added").string() + " (deleted)"));
}

TEST_F(MappedFiles, shows_another_file_of_a_known_name_that_is_unlinked) {
  const Mapping old(file("old"));
  const ProcessView before = look();
  fs::remove(file("old"));
  const Mapping added(file("old"));
  fs::remove(file("old"));
  EXPECT_THAT(newly_mapped(before, look()), ElementsAre(file("old").string() + " (deleted)"));
}

TEST_F(MappedFiles, is_not_misled_by_a_name_that_ends_like_an_unlinked_one) {
  const Mapping old(file("old"));
  const ProcessView before = look();
  const Mapping added(file("old (deleted)"));
  EXPECT_THAT(newly_mapped(before, look()), ElementsAre(file("old (deleted)").string()));
}

}  // namespace
}  // namespace kl
