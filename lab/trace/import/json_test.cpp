#include <lab/trace/import/json_cutter.hpp>
#include <lab/trace/import/json_text.hpp>
#include <lab/trace/import/test_import.hpp>

#include <fmt/format.h>

namespace kl::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> members_of(std::string_view text) {
  std::vector<std::string> found;
  if (!json_members(text, [&](std::string_view key, const JsonValue& value) {
        found.push_back(fmt::format("{}={}", key, value.text));
        return true;
      }))
    found.push_back("broken");
  return found;
}

TEST(json_text, members_are_keys_and_the_text_of_their_values) {
  EXPECT_THAT(members_of(R"({"a": 1, "b":"x\"y", "c" : {"d": [1, "]"]}, "e": [], "f": -1.5e3 , "g": null})"),
              ElementsAre("a=1", R"(b=x\"y)", R"(c={"d": [1, "]"]})", "e=[]", "f=-1.5e3", "g=null"));
  EXPECT_THAT(members_of(" {} "), ElementsAre());
}

TEST(json_text, what_is_no_object_is_broken_behind_what_could_be_read) {
  EXPECT_THAT(members_of("[1]"), ElementsAre("broken"));
  EXPECT_THAT(members_of(R"({"a": 1, "b" 2})"), ElementsAre("a=1", "broken"));
  EXPECT_THAT(members_of(R"({"a": })"), ElementsAre("broken"));
  EXPECT_THAT(members_of(R"({"a": 1)"), ElementsAre("broken"));
  EXPECT_THAT(members_of(R"({"a": "x)"), ElementsAre("broken"));
}

TEST(json_text, escapes_are_resolved) {
  std::string buffer;
  EXPECT_EQ(json_characters(R"(a<b>)", buffer), "a<b>");
  EXPECT_EQ(json_characters(R"(\u003ca\\\"\/\n\u00e4\ud83d\ude00\ud83dx\u12)", buffer), "<a\\\"/\nä😀\xef\xbf\xbdx\\u12");
}

class CutterTest : public ImportTest {
 protected:
  std::vector<std::string> cut(const std::string& text, std::string* broken = nullptr) {
    EXPECT_TRUE(write_file_atomic(folder_.path() / "j", text).ok());
    auto bytes = ByteStream::open(folder_.path() / "j");
    std::vector<std::string> parts;
    const std::string end = cut_json(
        *bytes, {[](std::string_view path) {
                   return path.ends_with("/t") || path == "/e/*" || path == "/*/*" ? Cut::take : path.ends_with("/s") ? Cut::skip : Cut::enter;
                 },
                 [&](std::string_view path, std::string_view part) { parts.push_back(fmt::format("{}={}", path, part)); }});
    if (broken != nullptr) *broken = end;
    else EXPECT_EQ(end, "");
    return parts;
  }
};

TEST_F(CutterTest, wanted_parts_come_whole_in_order) {
  EXPECT_THAT(cut("\xef\xbb\xbf { \"s\": [[\"}\"]], \"t\": 1.5, \"e\": [ {\"a\":1} , 2,[] ], \"o\": {\"t\": \"x\"}, \"n\": [] }"),
              ElementsAre("/t=1.5", "/e/*={\"a\":1}", "/e/*=2", "/e/*=[]", "/o/t=\"x\""));
  EXPECT_THAT(cut("[[1,2],[3]]"), ElementsAre("/*/*=1", "/*/*=2", "/*/*=3"));
}

TEST_F(CutterTest, parts_larger_than_what_is_read_at_once_come_whole) {
  const std::string large(3 << 20, 'x'), element = "{\"a\":\"" + std::string(1000, 'y') + "\"}";
  std::string text = "{\"s\":\"" + large + "\",\"s\":[\"" + large + "\"],\"t\":\"" + large + "\",\"e\":[" + element;
  for (int i = 0; i < 5000; ++i) text += "," + element;
  const auto parts = cut(text + "]}");
  ASSERT_EQ(parts.size(), 5002u);
  EXPECT_EQ(parts[0], "/t=\"" + large + "\"");
  for (size_t i = 1; i < parts.size(); ++i) ASSERT_EQ(parts[i], "/e/*=" + element);
}

TEST_F(CutterTest, a_break_is_told_with_its_place_and_what_came_before_is_kept) {
  std::string broken;
  EXPECT_THAT(cut(R"({"e":[1,2,)", &broken), ElementsAre("/e/*=1", "/e/*=2"));
  EXPECT_THAT(broken, HasSubstr("the file ends inside a value at byte 10"));
  EXPECT_THAT(cut(R"({"e":[{"a":1},{"a":)", &broken), ElementsAre("/e/*={\"a\":1}"));
  EXPECT_THAT(cut(R"({"e":[1 2]})", &broken), ElementsAre("/e/*=1"));
  EXPECT_THAT(broken, HasSubstr("neither ',' nor ']' at byte 8"));
  EXPECT_THAT(cut(R"({"e":[,1]})", &broken), ElementsAre());
  for (const char* text : {"", "{", "{\"", "{\"a\"", "{\"a\":", "{a:1}", "{\"a\" 1}", "[", "]"}) {
    cut(text, &broken);
    EXPECT_NE(broken, "") << text;
  }
}

TEST_F(CutterTest, a_string_that_never_closes_does_not_fill_the_memory) {
  std::string broken;
  cut("{\"s\":\"" + std::string(70 << 20, 'x'), &broken);
  EXPECT_THAT(broken, HasSubstr("longer than 64 MB"));
}

}  // namespace
}  // namespace kl::trace
