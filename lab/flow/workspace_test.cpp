#include <lab/flow/workspace.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/flow/history.hpp>
#include <lab/flow/promotion.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

namespace kl {
namespace {

using testing::HasSubstr;

class TestEngine : public Engine {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string_view backend_family() const override { return "native"; }
  std::vector<std::string> kernel_files() const override { return {"kernel.cpp"}; }
  Outcome usable() const override { return {}; }
  std::vector<DoctorLine> doctor() const override { return {}; }
  Result<DeviceDescription> device() const override { return DeviceDescription{}; }
  Result<std::string> build_key(const CompileRequest&) const override { return std::string(); }
  Result<CompileReport> compile(const CompileRequest&) const override { return CompileReport{}; }
};

constexpr std::string_view kSpec = R"(key = "double_it"
title = "Twice the input."
formula = "y = 2 x"
maths = "exact-reorder"
seam = "double_it"
row_axis = "N"
dtypes = ["f32"]

[[operation]]
name = "forward"
inputs = [{ name = "x", axes = ["N", "C"] }]
outputs = [{ name = "y", axes = ["N", "C"], terms = "1" }]

[cases]
quick = [{ N = 4, C = 8 }]
full = [{ N = 4, C = 8 }]
)";

class WorkspaceTest : public testing::Test {
 protected:
  void SetUp() override {
    write(target_folder() / "spec.toml", kSpec);
    write(champion(), "one\ntwo\nthree\n");
    write(target_folder() / "oracle.cpp", "// oracle\n");
    write(target_folder() / "reference.cpp", "// reference\n");
    auto target = read_target(target_folder());
    ASSERT_TRUE(target.ok()) << target.error().what;
    target_ = *target;
    catalogue_ = Catalogue::search({root_.path() / "targets"});
    folder_ = root_.path() / "w";
  }
  static void write(const fs::path& path, std::string_view text) {
    const auto written = write_file_atomic(path, text);
    ASSERT_TRUE(written.ok()) << written.error().what;
  }
  fs::path target_folder() const { return root_.path() / "targets" / "double_it"; }
  fs::path champion() const { return target_folder() / "kernel.cpp"; }
  Result<Workspace> init(const std::string& language = "") const {
    return init_workspace({&target_, &engine_, folder_, "smoke", language, ""});
  }
  Result<Workspace> open() const { return open_workspace(folder_, catalogue_); }
  void expect_invalid(const std::string& what) const {
    const auto opened = open();
    ASSERT_FALSE(opened.ok()) << what;
    EXPECT_EQ(opened.error().status, Status::invalid_workspace);
    EXPECT_THAT(opened.error().what, HasSubstr(what));
    EXPECT_FALSE(opened.error().remedy.empty()) << what;
  }

  TemporaryFolder root_ = TemporaryFolder::create("kl-workspace").value();
  TestEngine engine_;
  Target target_;
  Catalogue catalogue_;
  fs::path folder_;
};

TEST_F(WorkspaceTest, InitCopiesTheChampionAndSaysWhereItCameFrom) {
  const auto made = init();
  ASSERT_TRUE(made.ok()) << made.error().what;
  EXPECT_EQ(read_file(made->kernel()).value(), read_file(champion()).value());
  const auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.error().what;
  EXPECT_EQ(to_json(opened->record), to_json(made->record));
  EXPECT_EQ(opened->record.champion_hash, sha256_file(champion()).value());
  EXPECT_EQ(opened->record.language, "c++");
  EXPECT_EQ(opened->record.context.preset, "smoke");
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder_)) files.insert(entry.path().filename());
  EXPECT_EQ(files, (std::set<std::string>{"README.md", "kernel.cpp", "workspace.json"}));
}

TEST_F(WorkspaceTest, ReadmeSaysTheContract) {
  ASSERT_TRUE(init().ok());
  const std::string readme = read_file(folder_ / "README.md").value();
  for (const auto* part :
       {"# double_it", "Twice the input.", "y = 2 x", "`kernel.cpp`", "| input | `x` | [N, C]",
        "| output | `y` | [N, C] | T | write |", "exact-reorder", "verify --workspace"})
    EXPECT_THAT(readme, HasSubstr(part));
}

TEST_F(WorkspaceTest, InitRefusesAFolderInUseAndALanguageThatIsNotThere) {
  const auto language = init("cuda");
  ASSERT_FALSE(language.ok());
  EXPECT_EQ(language.error().status, Status::usage);
  EXPECT_THAT(language.error().remedy, HasSubstr("c++"));
  EXPECT_FALSE(fs::exists(folder_));
  ASSERT_TRUE(init("c++").ok());
  write(folder_ / "kernel.cpp", "my work\n");
  const auto again = init();
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().status, Status::usage);
  EXPECT_EQ(read_file(folder_ / "kernel.cpp").value(), "my work\n");
}

TEST_F(WorkspaceTest, TargetWithoutAKernelForTheEngineHasNoStarter) {
  fs::remove(champion());
  const auto made = init();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().status, Status::starter_unavailable);
}

TEST_F(WorkspaceTest, AMovedWorkspaceStillOpens) {
  ASSERT_TRUE(init().ok());
  fs::rename(folder_, root_.path() / "elsewhere");
  EXPECT_TRUE(open_workspace(root_.path() / "elsewhere", catalogue_).ok());
  expect_invalid("is not a folder");
}

TEST_F(WorkspaceTest, EveryKindOfDamageIsNamedWithARemedy) {
  ASSERT_TRUE(init().ok());
  const fs::path record = folder_ / "workspace.json";
  const std::string good = read_file(record).value();
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write(record, text);
  };
  damaged("\"smoke\"", "\"big\"");
  expect_invalid("was edited");
  damaged("\"schema_version\": 1", "\"schema_version\": 2");
  expect_invalid("version 2");
  damaged("\"cpu\"", "7");
  expect_invalid("engine");
  write(record, good.substr(0, good.size() / 2));
  expect_invalid("not JSON");
  write(record, "[]");
  expect_invalid("not an object");
  fs::remove(record);
  expect_invalid("has no workspace.json");
  write(record, good);
  fs::remove(folder_ / "kernel.cpp");
  expect_invalid("has no kernel.cpp");
  EXPECT_TRUE(open_workspace(folder_, catalogue_, KernelFile::may_be_missing).ok());
  write(folder_ / "kernel.cpp", "x");
  EXPECT_TRUE(open().ok());
  catalogue_ = Catalogue::search({root_.path() / "no targets"});
  expect_invalid("double_it");
}

TEST_F(WorkspaceTest, AReadOnlyFolderIsInvalidForAUserWhoCannotWriteIt) {
  ASSERT_TRUE(init().ok());
  ::chmod(root_.path().c_str(), 0755);
  ::chmod(folder_.c_str(), 0555);
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    const auto opened = open();
    if (opened.ok() || opened.error().status != Status::invalid_workspace) ::_exit(1);
    ::_exit(opened.error().remedy.find("permissions") == std::string::npos ? 3 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::chmod(folder_.c_str(), 0755);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(WorkspaceTest, DiffIsAPatchThatCountsItsLines) {
  const auto same = diff_sources("a\n", "a\n", "x", "y");
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->text, "");
  const auto diff = diff_sources("a\n-- b\nc\n", "a\n++ d\nc\ne\n", "a/k", "b/k");
  ASSERT_TRUE(diff.ok());
  EXPECT_EQ(diff->lines_added, 2);
  EXPECT_EQ(diff->lines_removed, 1);
  EXPECT_EQ(diff->text, "--- a/k\n+++ b/k\n@@ -1,3 +1,4 @@\n a\n--- b\n+++ d\n c\n+e\n");
}

class PromotionTest : public WorkspaceTest {
 protected:
  void SetUp() override {
    WorkspaceTest::SetUp();
    workspace_ = init().value();
    write(workspace_.kernel(), kNew);
  }
  PromotionRequest request() const {
    PromotionRequest r;
    r.champion = champion();
    r.source = kNew;
    r.verified_hash = sha256_hex(kNew);
    r.made_from = workspace_.record.champion_hash;
    r.provenance.target = "double_it";
    r.provenance.evidence = {"id of the A/B"};
    r.provenance.gains = {{"speedup", 0.12}};
    r.objects = &objects_;
    return r;
  }
  std::map<std::string, std::string> target_files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(target_folder()))
      if (entry.is_regular_file()) files[entry.path().filename()] = read_file(entry.path()).value();
    return files;
  }

  const std::string kNew = "one\n2\nthree\nfour\n";
  Workspace workspace_;
  ObjectStore objects_{root_.path() / "objects"};
};

TEST_F(PromotionTest, ApplyChangesTheChampionAndItsProvenanceAndNothingElse) {
  auto expected = target_files();
  const std::string old_hash = sha256_hex(expected["kernel.cpp"]);
  const auto patch = promotion_patch(champion(), kNew);
  ASSERT_TRUE(patch.ok());
  EXPECT_THAT(patch->diff.text, HasSubstr("--- a/targets/double_it/kernel.cpp\n"));
  EXPECT_EQ(target_files(), expected) << "showing the patch changes nothing";

  const auto applied = apply_promotion(request());
  ASSERT_TRUE(applied.ok()) << applied.error().what;
  EXPECT_EQ(applied->from_hash, old_hash);
  EXPECT_EQ(applied->lines_added, 2);
  EXPECT_EQ(applied->lines_removed, 1);
  expected["kernel.cpp"] = kNew;
  auto files = target_files();
  EXPECT_EQ(files.erase("provenance.json"), 1u);
  EXPECT_EQ(files, expected);
  const auto provenance = read_provenance(champion()).value();
  ASSERT_TRUE(provenance.has_value());
  EXPECT_EQ(to_json(*provenance), to_json(*applied));
  EXPECT_EQ(objects_.get(old_hash).value(), "one\ntwo\nthree\n");
}

TEST_F(PromotionTest, AChampionThatChangedMeanwhileIsRefusedUnlessForced) {
  write(champion(), "someone else's\n");
  const auto before = target_files();
  const auto applied = apply_promotion(request());
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().status, Status::refused);
  EXPECT_EQ(target_files(), before);
  auto forced = request();
  forced.forced = true;
  forced.provenance.why = "agreed";
  ASSERT_TRUE(apply_promotion(forced).ok());
  EXPECT_TRUE(read_provenance(champion()).value()->forced);
}

TEST_F(PromotionTest, AKernelOtherThanTheVerifiedOneIsRefusedEvenWhenForced) {
  auto changed = request();
  changed.source += "five\n";
  changed.forced = true;
  const auto before = target_files();
  const auto applied = apply_promotion(changed);
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().status, Status::refused);
  EXPECT_EQ(target_files(), before);
}

TEST_F(PromotionTest, ChampionIsPutBackWhenTheProvenanceCannotBeWritten) {
  auto unwritable = request();
  const auto before = target_files();
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    // The champion is small, the provenance is larger than this limit on file size.
    ::signal(SIGXFSZ, SIG_IGN);
    unwritable.provenance.why = std::string(1 << 20, 'x');
    const rlimit limit{1 << 16, 1 << 16};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto applied = apply_promotion(unwritable);
    ::_exit(!applied.ok() && applied.error().what.find("was put back") != std::string::npos ? 0
                                                                                            : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(target_files(), before);
}

TEST_F(PromotionTest, PromotingTheChampionItselfIsRefused) {
  auto same = request();
  same.source = read_file(champion()).value();
  same.verified_hash.clear();
  EXPECT_EQ(apply_promotion(same).error().status, Status::refused);
}

LedgerEvent event(const std::string& type, const std::string& kernel, const std::string& workspace,
                  const std::string& at) {
  LedgerEvent e;
  e.id = at;
  e.created_at = at;
  e.engine = "cpu";
  e.target = "double_it";
  e.event_type = type;
  e.status = "ok";
  e.workspace = workspace;
  e.identity.kernel = kernel;
  return e;
}

TEST_F(PromotionTest, HistoryListsEverySourceThatWasVerifiedWithItsVerdicts) {
  const std::string stored = objects_.put("source a", ".cpp").value();
  const std::vector<LedgerEvent> events = {
      event("verify", stored, "w", "1"), event("bench", stored, "w", "2"),
      event("bench", "benched only", "w", "3"), event("verify", "gone", "other", "4"),
      event("integration-ab", stored, "w", "5")};
  const auto all = history(events, {"double_it", "cpu", "", stored}, objects_);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].kernel, stored);
  EXPECT_EQ(all[0].verdicts.size(), 3u);
  EXPECT_EQ(all[0].first_seen, "1");
  EXPECT_EQ(all[0].last_seen, "5");
  EXPECT_TRUE(all[0].stored && all[0].is_champion);
  EXPECT_FALSE(all[1].stored || all[1].is_champion);
  EXPECT_EQ(history(events, {"double_it", "cpu", "w", ""}, objects_).size(), 1u);
}

TEST_F(PromotionTest, RestoreBringsASourceBackAndKeepsWhatWasThere) {
  const std::string hash = objects_.put("an older try\n", ".cpp").value();
  const auto restored = restore_kernel(workspace_, hash.substr(0, 8), objects_);
  ASSERT_TRUE(restored.ok()) << restored.error().what;
  EXPECT_EQ(restored->kernel, hash);
  EXPECT_EQ(read_file(workspace_.kernel()).value(), "an older try\n");
  EXPECT_EQ(objects_.get(restored->replaced).value(), kNew);
  EXPECT_FALSE(restore_kernel(workspace_, "ffffffff", objects_).ok());
  EXPECT_EQ(read_file(workspace_.kernel()).value(), "an older try\n");

  const auto diff =
      diff_named("champion", hash.substr(0, 8), {champion(), workspace_.kernel()}, objects_);
  ASSERT_TRUE(diff.ok());
  EXPECT_EQ(diff->lines_removed, 3);
  EXPECT_EQ(diff->lines_added, 1);
}

}  // namespace
}  // namespace kl
