#include <lab/trace/import/test_import.hpp>

namespace kl::trace {
namespace {

class CorpusTest : public ImportTest {};

TEST_F(CorpusTest, every_input_kept_for_the_fuzzers_is_read_as_its_format) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(KL_SOURCE_DIR) / "fuzz" / "corpus")) {
    if (!entry.is_regular_file() || entry.path().parent_path().filename() == "kernel_name") continue;
    ++files;
    const std::string content = *read_file(entry.path());
    const auto model = read(entry.path().extension() == ".sql" ? database(content) : content);
    EXPECT_TRUE(model.ok()) << entry.path() << ": " << model.error().what;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace kl::trace
