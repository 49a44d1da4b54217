#include <lab/trace/import/csv.hpp>
#include <lab/trace/import/test_import.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl::trace {
namespace {

class CsvTest : public ImportTest {
 protected:
  std::vector<std::string> rows(std::string_view text, std::string* broken = nullptr) {
    EXPECT_TRUE(write_file_atomic(folder_.path() / "c", text).ok());
    CsvStream csv(std::move(*ByteStream::open(folder_.path() / "c")));
    std::vector<std::string> found;
    for (CsvRow row; csv.next(row);) found.push_back(fmt::format("{}:{}", csv.line(), fmt::join(row, "|")));
    if (broken != nullptr) *broken = csv.broken();
    return found;
  }
};

TEST_F(CsvTest, cells_may_be_quoted_and_span_lines) {
  EXPECT_THAT(rows("a,b\r\n\"x, \"\"y\"\"\nz\",2\n\n,\nlast"), testing::ElementsAre("1:a|b", "2:x, \"y\"\nz|2", "4:", "5:|", "6:last"));
}

TEST_F(CsvTest, a_quote_that_never_closes_is_told) {
  std::string broken;
  EXPECT_THAT(rows("a,b\n\"c,d\n", &broken), testing::ElementsAre("1:a|b"));
  EXPECT_EQ(broken, "a quoted cell never ends");
}

TEST(csv, marks_group_or_part_the_decimals) {
  EXPECT_EQ(grouped_decimal("1,048,576", 0), 1048576);
  EXPECT_EQ(grouped_decimal("4,963,609,951.19", 2), 496360995119);
  EXPECT_EQ(grouped_decimal("1.048.576,5", 1), 10485765);
  EXPECT_EQ(grouped_decimal("28,448", 0), 28448);
  EXPECT_EQ(grouped_decimal("28,448", 3, true), 28448) << "28.448 of a unit with three places";
  EXPECT_EQ(grouped_decimal("28.448", 3), 28448);
  EXPECT_EQ(grouped_decimal("45,3", 1), 453);
  EXPECT_EQ(grouped_decimal("n/a", 0), std::nullopt);
}

}  // namespace
}  // namespace kl::trace
