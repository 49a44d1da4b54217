#include <lab/trace/import/test_import.hpp>

namespace kl::trace {
namespace {

class CorpusTest : public ImportTest {};

TEST_F(CorpusTest, every_input_kept_for_the_fuzzers_is_read_as_its_format) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(KL_SOURCE_DIR) / "fuzz" / "corpus")) {
    if (!entry.is_regular_file()) continue;
    ++files;
    const auto model = read_trace(entry.path());
    EXPECT_TRUE(model.ok()) << entry.path() << ": " << model.error().what;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace kl::trace
