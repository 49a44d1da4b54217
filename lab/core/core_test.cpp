#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/near.hpp>
#include <lab/core/process.hpp>
#include <lab/core/shell.hpp>
#include <lab/core/record.hpp>
#include <lab/core/status.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <limits>

namespace kl {
namespace {

TEST(status, every_status_has_a_name_and_an_exit_code) {
  std::vector<std::string_view> names;
  for (const auto& row : status_table()) {
    EXPECT_EQ(to_string(row.status), row.name);
    EXPECT_EQ(status_from_string(row.name), row.status);
    EXPECT_EQ(exit_code_of(row.status), row.exit_code);
    names.push_back(row.name);
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Status::error) + 1) << "a status is missing from the table";
}

TEST(status, exit_codes_follow_the_contract) {
  EXPECT_EQ(exit_code_of(Status::equivalent), ExitCode::done);
  EXPECT_EQ(exit_code_of(Status::equivalent, true), ExitCode::negative);
  EXPECT_EQ(exit_code_of(Status::mismatch), ExitCode::negative);
  EXPECT_EQ(exit_code_of(Status::mixed), ExitCode::negative);
  EXPECT_EQ(exit_code_of(Status::inconclusive), ExitCode::undecided);
  EXPECT_EQ(exit_code_of(Status::suspect), ExitCode::undecided);
  EXPECT_EQ(exit_code_of(Status::missing_runtime), ExitCode::unavailable);
  EXPECT_EQ(exit_code_of(Status::invalid_workspace), ExitCode::usage);
  EXPECT_EQ(exit_code_of(Status::error), ExitCode::internal);
  for (const Status without : {Status::capture_unavailable, Status::insufficient_trace_data,
                               Status::missing_profiler_summary, Status::insufficient_metrics})
    EXPECT_EQ(exit_code_of(without), ExitCode::unavailable) << to_string(without);
  for (const Status failed : {Status::capture_failed, Status::profile_failed})
    EXPECT_EQ(exit_code_of(failed), ExitCode::negative) << to_string(failed);
}

TEST(hash, sha256_of_abc_is_the_published_one) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(sha256_fields({"ab", "c"}), sha256_fields({"a", "bc"}));
}

TEST(near, a_misspelled_word_finds_its_neighbour) {
  const std::vector<std::string> words = {"rmsnorm", "layernorm", "loss_prelude"};
  EXPECT_EQ(near_matches("rmsnrom", words).front(), "rmsnorm");
  EXPECT_EQ(suggestion("rmsnom", words), "did you mean rmsnorm?");
  EXPECT_NE(suggestion("zzzzzzzz", words).find("layernorm"), std::string::npos);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(files, an_atomic_write_replaces_and_leaves_nothing_beside) {
  auto folder = TemporaryFolder::create("kl-test");
  ASSERT_TRUE(folder.ok());
  const fs::path file = folder->path() / "a" / "b.txt";
  ASSERT_TRUE(write_file_atomic(file, "one").ok());
  ASSERT_TRUE(write_file_atomic(file, "two").ok());
  EXPECT_EQ(*read_file(file), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator{}), 1);
}

TEST(files, a_missing_file_is_a_clear_error) {
  const auto result = read_file("/nonexistent/kernel.cpp");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().what.find("/nonexistent/kernel.cpp"), std::string::npos);
  EXPECT_FALSE(result.error().remedy.empty());
}

TEST(files, the_temporary_folder_goes_with_its_object) {
  fs::path kept;
  {
    auto folder = TemporaryFolder::create("kl-test");
    kept = folder->path();
    EXPECT_TRUE(fs::exists(kept));
  }
  EXPECT_FALSE(fs::exists(kept));
}

TEST(files, objects_are_found_by_prefix) {
  auto folder = TemporaryFolder::create("kl-test");
  const ObjectStore store(folder->path());
  const auto hash = store.put("content", ".cpp");
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(*store.get(hash->substr(0, 8)), "content");
  EXPECT_EQ(store.get("ffffffff").error().status, Status::usage);
}

TEST(process, output_exit_code_and_environment_come_back) {
  const auto run = run_process({.arguments = {"sh", "-c", "echo $GREETING; echo oops >&2; exit 3"},
                                .environment = {{"GREETING", "hello"}}});
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->out, "hello\n");
  EXPECT_EQ(run->err, "oops\n");
  EXPECT_EQ(run->exit_code, 3);
}

TEST(process, a_missing_program_is_a_missing_tool) {
  const auto run = run_process({.arguments = {"no-such-program-here"}});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().status, Status::missing_tool);
}

TEST(process, a_hanging_child_is_killed_with_its_children) {
  const auto run = run_process({.arguments = {"sh", "-c", "sleep 100 & echo $!; sleep 100"}, .timeout_seconds = 0.3});
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->timed_out);
  EXPECT_LT(run->wall_seconds, 5);
  const pid_t grandchild = std::stoi(run->out);
  for (int i = 0; i < 100 && ::kill(grandchild, 0) == 0; ++i) ::usleep(10'000);
  const auto stat = read_file("/proc/" + std::to_string(grandchild) + "/stat");
  EXPECT_TRUE(!stat.ok() || stat->find(") Z ") != std::string::npos) << "a grandchild is still running";
}

TEST(process, a_flood_of_output_is_dropped_beyond_the_limit) {
  const auto run = run_process({.arguments = {"sh", "-c", "head -c 5000000 /dev/zero"}, .output_limit_bytes = 1000});
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->out.size(), 1000u);
  EXPECT_TRUE(run->output_truncated);
}

struct Inner {
  double x = 1;
  template <class Self, class V>
  static void describe(Self& self, V& v) { v("x", self.x, "a number"); }
};
struct Outer : RecordHeader {
  static constexpr std::string_view kSchema = "outer";
  std::vector<Inner> items;
  std::optional<int64_t> count;
  std::map<std::string, double> shares;
  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("items", self.items, "list");
    v("count", self.count, "maybe");
    v("shares", self.shares, "by name");
  }
};

TEST(record, a_round_trip_keeps_every_field) {
  Outer record = new_record<Outer>();
  record.status = Status::improved;
  record.items = {{2.5}, {3.5}};
  record.shares["a"] = 0.25;
  const Json json = to_json(record);
  const auto back = from_json<Outer>(json);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(to_json(*back), json);
  EXPECT_EQ(json["schema"], "outer");
  EXPECT_EQ(json["status"], "improved");
}

TEST(record, numbers_that_are_not_finite_become_null) {
  Inner inner{std::numeric_limits<double>::infinity()};
  EXPECT_TRUE(to_json(inner)["x"].is_null());
}

TEST(record, a_wrong_type_names_the_field) {
  const auto result = from_json<Outer>(Json{{"items", Json::array({{{"x", "text"}}})}});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().what.find("items[0].x"), std::string::npos);
}

TEST(record, the_schema_lists_every_field_with_its_words) {
  const Json schema = schema_of<Outer>();
  EXPECT_EQ(schema["title"], "outer");
  EXPECT_EQ(schema["properties"]["items"]["items"]["properties"]["x"]["description"], "a number");
  EXPECT_EQ(schema["required"].size(), schema["properties"].size());
}

TEST(shell, a_word_is_quoted_where_it_has_to_be) {
  EXPECT_EQ(shell_word("results/mine-2"), "results/mine-2");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace kl
