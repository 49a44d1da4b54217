#include <lab/flow/assess.hpp>

#include <lab/core/files.hpp>
#include <lab/flow/decision.hpp>
#include <lab/flow/evidence.hpp>
#include <lab/ledger/ledger.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace kl {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kCandidate(64, 'a'), kOther(64, 'b'), kChampion(64, 'c'), kOldChampion(64, 'd');

// Ledger lines as the verbs write them, one after the other.
class Story {
 public:
  explicit Story(std::string kernel = kCandidate) : kernel_(std::move(kernel)) {}

  Story& of(std::string kernel) {
    kernel_ = std::move(kernel);
    return *this;
  }
  Story& verify(const std::string& status = "ok") { return add("verify", status); }
  Story& bench(const std::string& status, double ratio) {
    add("bench", status);
    last().metric_name = "time_ratio";
    last().metric_value = ratio;
    return *this;
  }
  Story& ab(const std::string& status, const std::string& against = "champion") {
    add("integration-ab", status);
    last().details["against"] = against;
    return *this;
  }
  Story& calibration(double share, double delta_eff = 0.004) {
    add("calibration", "ok");
    last().target = "";
    last().identity.kernel = "";
    last().identity.baseline = "";
    last().identity.seams = "all champions";
    last().details = {{"seam_share", {{"rmsnorm", share}}}, {"delta_eff", delta_eff}};
    return *this;
  }
  Story& with_share(double share) {
    last().details["seam_share"] = {{"rmsnorm", share}};
    return *this;
  }
  Story& unstable() {
    last().status = "unstable";
    last().details["record"] = {{"reason", "other processes used 1.50 processors meanwhile"}};
    return *this;
  }
  Story& capture(const std::string& status = "ok") {
    of_trace("capture", status);
    last().details["record"] = {{"prefix", "t"}};
    return *this;
  }
  // `gain_bound`: of the step, by the floor of the cost model.
  Story& trace_profile(std::optional<double> share, std::optional<double> gain_bound = std::nullopt) {
    of_trace("trace-profile", "ok");
    last().details["record"] = {{"output_file", "t.trace-profile.json"}, {"seam_share", Json::object()}};
    if (share) last().details["record"]["seam_share"]["rmsnorm"] = *share;
    if (share && gain_bound)
      last().details["record"]["candidates"] = {{{"target", "softmax"}, {"share", 0.5}, {"gain_bound", 0.5}},
                                                {{"target", "rmsnorm"}, {"share", *share}, {"gain_bound", *gain_bound}}};
    return *this;
  }
  Story& auto_review(const std::string& relevance) {
    of_trace("auto-review", "ok");
    last().details["record"] = {{"relevance", {{"rmsnorm", relevance}}}};
    return *this;
  }
  Story& review(const std::string& relevance) {
    of_trace("trace-review", "ok");
    last().target = "rmsnorm";
    last().details["record"] = {{"relevance", relevance}};
    return *this;
  }
  Story& deep_profile(const std::string& diagnosis, double confidence) {
    of_trace("deep-profile", "ok");
    last().target = "rmsnorm";
    last().details["record"] = {{"diagnosis", diagnosis}, {"confidence", confidence}, {"output_file", "d.json"}};
    return *this;
  }
  // Filed under an imported trace's name, which knows families.
  Story& imported() {
    last().preset = "external:run";
    last().identity = {};
    last().details["record"]["attributed_by"] = "families";
    return *this;
  }
  Story& of_families() {
    last().details["record"]["attributed_by"] = "families";
    return *this;
  }
  Story& of_other_champions() {
    last().identity.seams = "other champions";
    return *this;
  }
  Story& other_case() {
    last().details["record"] = {{"reason", "other-case-regressed"}};
    return *this;
  }
  Story& promotion() { return add("promotion", "promoted"); }
  LedgerEvent& last() { return events.back(); }

  std::vector<LedgerEvent> events;

 private:
  void of_trace(const std::string& type, const std::string& status) {
    add(type, status);
    last().target = "";
    last().identity = {};
    last().identity.seams = "all champions";
    last().identity.trainer = "trainer";
    last().identity.fingerprint_class = "class";
  }
  Story& add(const std::string& type, const std::string& status) {
    LedgerEvent event;
    event.id = std::to_string(events.size() + 1);
    event.engine = "cpu";
    event.target = "rmsnorm";
    event.preset = "smoke";
    event.workspace = "w";
    event.event_type = type;
    event.status = status;
    event.identity = {kernel_,   "flags",       "harness", "plan",
                      kChampion, "other seams", "trainer", "class"};
    events.push_back(std::move(event));
    return *this;
  }
  std::string kernel_;
};

AssessRequest request() {
  AssessRequest r;
  r.target = "rmsnorm";
  r.engine = "cpu";
  r.preset = "smoke";
  r.seam = "rmsnorm";
  r.champion_hash = kChampion;
  r.champion_set = "all champions";
  r.candidate_hash = kCandidate;
  r.workspace = "w";
  r.now = {"", "flags", "harness", "plan", "", "other seams", "trainer", "class"};
  return r;
}

struct Row {
  const char* name;
  Story story;
  std::string state;
  std::string answer;
  AssessRequest ask = request();
};

AssessRequest without_candidate() {
  auto r = request();
  r.candidate_hash = r.workspace = "";
  return r;
}
AssessRequest with_champion(const std::string& hash) {
  auto r = request();
  r.champion_hash = hash;
  return r;
}
AssessRequest without_seam() {
  auto r = request();
  r.seam = "";
  return r;
}
AssessRequest with_counters() {
  auto r = request();
  r.can_deep_profile = true;
  return r;
}
AssessRequest of_import() {
  auto r = request();
  r.preset = "external:run";
  r.external = true;
  r.seam = r.champion_set = "";
  r.stand_in_preset = "cpu-balanced";
  r.now = {"", "flags", "harness", "plan", "", "", "", "class"};
  return r;
}
AssessRequest of_import_without_candidate() {
  auto r = of_import();
  r.candidate_hash = r.workspace = "";
  return r;
}
AssessRequest without_starter() {
  auto r = without_candidate();
  r.has_starter = false;
  return r;
}

std::vector<Row> table() {
  return {
      {"nothing is known", Story(), "no-evidence", "needs-capture", without_candidate()},
      {"a target without starter", Story().calibration(0.1), "trace-backed", "ready-for-workspace-family",
       without_starter()},
      {"a fresh workspace", Story(), "no-evidence", "needs-capture"},
      {"a capture that no tool could make", Story().capture("missing-tool"), "no-evidence", "needs-capture"},
      {"a capture", Story().capture(), "no-evidence", "needs-trace-profile"},
      {"a capture and its profile", Story().capture().trace_profile(0.05), "trace-backed", "needs-verify"},
      {"a capture newer than its profile", Story().capture().trace_profile(0.05).capture(), "trace-backed",
       "needs-trace-profile"},
      {"a capture of other champions", Story().capture().of_other_champions(), "no-evidence", "needs-capture"},
      {"a large share", Story().capture().trace_profile(0.1), "trace-backed", "needs-deep-profile", with_counters()},
      {"a share that needs no counters", Story().capture().trace_profile(0.099), "trace-backed", "needs-verify",
       with_counters()},
      {"a strong diagnosis", Story().capture().trace_profile(0.1).deep_profile("bandwidth-bound", 0.8), "trace-backed",
       "needs-verify", with_counters()},
      {"a diagnosis neither strong nor weak", Story().capture().trace_profile(0.1).deep_profile("bandwidth-bound", 0.6),
       "trace-backed", "needs-verify", with_counters()},
      {"a weak diagnosis", Story().capture().trace_profile(0.1).deep_profile("bandwidth-bound", 0.4), "trace-backed",
       "needs-manual-review", with_counters()},
      {"a mixed diagnosis", Story().capture().trace_profile(0.1).deep_profile("mixed", 0.9), "trace-backed",
       "needs-manual-review", with_counters()},
      {"a weak diagnosis that a person has judged",
       Story().capture().trace_profile(0.1).deep_profile("mixed", 0.9).review("low"), "trace-backed", "needs-verify",
       with_counters()},
      {"a judgement before the weak diagnosis",
       Story().capture().trace_profile(0.1).review("low").deep_profile("mixed", 0.9), "trace-backed",
       "needs-manual-review", with_counters()},
      {"a trace without this seam", Story().capture().trace_profile(std::nullopt), "no-evidence", "needs-verify"},
      {"a trace whose share is too small", Story().capture().trace_profile(0.004), "trace-deprioritized", "deprioritized"},
      {"a kernel close to its floor", Story().capture().trace_profile(0.05, 0.004), "trace-deprioritized", "deprioritized"},
      {"a kernel far enough from it", Story().capture().trace_profile(0.05, 0.006), "trace-backed", "needs-verify"},
      {"a bench knows better than the floor", Story().capture().trace_profile(0.05, 0.004).verify().bench("improved", 0.5),
       "ready-for-integration-test", "ready-for-integration"},
      {"a low relevance above the bound does not deprioritize", Story().capture().trace_profile(0.05).review("low"),
       "trace-backed", "needs-verify"},
      {"a share alone", Story().calibration(0.1), "trace-backed", "needs-verify"},
      {"a share and no workspace", Story().calibration(0.1), "trace-backed", "ready-for-workspace",
       without_candidate()},
      {"a share too small", Story().calibration(0.004), "trace-deprioritized", "deprioritized"},
      {"verified without a share", Story().verify(), "verified-only", "needs-capture"},
      {"verified with a share", Story().calibration(0.1).verify(), "ready-for-integration-test",
       "ready-for-integration"},
      {"no seam in the trainer", Story().verify(), "verified-only", "needs-integration-adapter",
       without_seam()},
      {"the last recorded candidate", Story().calibration(0.1).verify(), "ready-for-integration-test", "ready-for-integration",
       without_candidate()},
      {"a bench that cannot matter", Story().calibration(0.05).verify().bench("improved", 0.95),
       "trace-deprioritized", "deprioritized"},
      {"a bench that can", Story().calibration(0.05).verify().bench("improved", 0.85),
       "ready-for-integration-test", "ready-for-integration"},
      {"a gain under the noise", Story().calibration(0.1, 0.03).verify().bench("improved", 0.8),
       "trace-deprioritized", "deprioritized"},
      {"a bench that regressed", Story().calibration(0.5).verify().bench("regressed", 1.1),
       "trace-deprioritized", "deprioritized"},
      {"an undecided bench", Story().calibration(0.5).verify().bench("inconclusive", 1.1),
       "ready-for-integration-test", "ready-for-integration"},
      {"a mismatch", Story().calibration(0.1).verify("mismatch"), "trace-backed", "rejected"},
      {"a mismatch is not undone by a luckier seed", Story().verify("mismatch").verify("ok"),
       "no-evidence", "rejected"},
      {"a build failure", Story().verify("build-failed"), "no-evidence", "rejected"},
      {"a failure that went away", Story().verify("timed-out").verify("ok"), "verified-only", "needs-capture"},
      {"a bench that rejected", Story().verify().bench("rejected", 0.5), "verified-only",
       "rejected"},
      {"a bench with a case that lost time", Story().verify().bench("regressed", 0.7).other_case(),
       "verified-only", "rejected"},
      {"a bench faster than the machine can be", Story().verify().bench("suspect", 0.1),
       "verified-only", "rejected"},
      {"evidence of another kernel only", Story(kOther).calibration(0.1).verify().ab("validated"), "stale",
       "needs-verify"},
      {"validated at the first try", Story().calibration(0.2).verify().ab("validated"),
       "integration-validated", "ready-to-promote"},
      {"validated, never verified", Story().ab("validated"), "integration-validated",
       "needs-verify"},
      {"regressed", Story().verify().ab("regressed"), "integration-regressed", "deprioritized"},
      {"equivalent", Story().verify().ab("equivalent"), "integration-equivalent", "deprioritized"},
      {"mixed", Story().verify().ab("mixed"), "integration-mixed", "stabilize-integration"},
      {"inconclusive", Story().verify().ab("inconclusive"), "integration-tested",
       "stabilize-integration"},
      {"an A/B that broke off", Story().calibration(0.1).verify().ab("error"), "ready-for-integration-test",
       "ready-for-integration"},
      {"an A/B against the reference moves nothing", Story().verify().ab("validated", "reference"),
       "verified-only", "needs-capture"},
      {"a winner after a try that was undecided",
       Story().verify().ab("inconclusive").ab("validated"), "integration-validated",
       "needs-confirmation"},
      {"a winner after another candidate's try",
       Story(kOther).verify().ab("equivalent").of(kCandidate).verify().ab("validated"),
       "integration-validated", "needs-confirmation"},
      {"a winner confirmed", Story().verify().ab("inconclusive").ab("validated").ab("validated"),
       "integration-validated", "ready-to-promote"},
      {"a confirmation that failed", Story().verify().ab("validated").ab("inconclusive"),
       "integration-validated", "needs-confirmation"},
      {"a promotion starts the count of tries again",
       Story(kOther)
           .ab("inconclusive")
           .ab("validated")
           .promotion()
           .of(kCandidate)
           .verify()
           .ab("validated"),
       "integration-validated", "ready-to-promote"},
      {"promoted", Story().verify().ab("validated").promotion(), "promoted", "already-champion",
       with_champion(kCandidate)},
      {"the champion unchanged", Story(), "no-evidence", "already-champion",
       with_champion(kCandidate)},
      {"an imported trace", Story().trace_profile(0.2).imported(), "trace-backed", "ready-for-workspace", of_import_without_candidate()},
      {"an imported trace of which nothing is on file", Story(), "no-evidence", "needs-trace-profile", of_import_without_candidate()},
      {"a workspace of an imported trace", Story().trace_profile(0.2).imported(), "trace-backed", "needs-verify", of_import()},
      {"an imported trace without this family", Story().trace_profile(std::nullopt).imported(), "no-evidence", "ready-for-workspace",
       of_import_without_candidate()},
      {"an imported trace in which the family is too small", Story().trace_profile(0.004).imported(), "trace-deprioritized", "deprioritized",
       of_import_without_candidate()},
      {"a returning A/B", Story().capture().trace_profile(0.04).verify().ab("equivalent").capture().trace_profile(0.06), "ready-for-integration-test",
       "ready-for-integration"},
      {"conclusive before deprioritized", Story().calibration(0.001).verify().ab("validated"),
       "integration-validated", "ready-to-promote"},
  };
}

TEST(Assess, EveryRowOfTheTableHasItsStateAndAnswer) {
  for (const auto& row : table()) {
    const auto a = assess(row.story.events, row.ask);
    EXPECT_EQ(a.state, row.state) << row.name;
    EXPECT_EQ(a.answer, row.answer) << row.name;
    EXPECT_EQ(a.blockers.empty(), row.answer == "ready-to-promote") << row.name;
  }
}

TEST(Assess, TheTableCoversEveryStateAndEveryAnswer) {
  std::set<std::string> states, answers;
  for (const auto& row : table()) {
    states.insert(row.state);
    answers.insert(row.answer);
  }
  EXPECT_EQ(states,
            std::set<std::string>(promotion_state_names().begin(), promotion_state_names().end()));
  EXPECT_EQ(answers, std::set<std::string>(promotion_answer_names().begin(),
                                           promotion_answer_names().end()));
}

TEST(Assess, NoNextCommandNamesAVerbThatDoesNotExist) {
  const std::set<std::string> verbs = {
      "list-targets",    "init",      "bench",   "verify",  "integration-ab",
      "promotion-check", "evidence",  "promote", "history", "diff",
      "restore",         "calibrate", "doctor",  "ledger",  "tour",
      "capture",         "trace-profile", "deep-profile", "review-trace"};
  for (const auto& row : table()) {
    const auto a = assess(row.story.events, row.ask);
    std::istringstream words(a.next.command);
    std::string program, verb;
    words >> program >> verb;
    EXPECT_EQ(program, "kernel-lab") << row.name;
    EXPECT_TRUE(verbs.contains(verb)) << row.name << ": " << a.next.command;
    EXPECT_FALSE(a.next.why.empty()) << row.name;
  }
}

// Bench times what the trainer calls: without a seam there is nothing to time.
TEST(Assess, ATargetWithoutASeamIsNotSentToBench) {
  AssessRequest ask = request();
  EXPECT_THAT(assess(Story().verify().events, ask).notes, Contains(HasSubstr("bench says cheaply")));
  ask.seam.clear();
  for (const auto& note : assess(Story().verify().events, ask).notes) EXPECT_THAT(note, testing::Not(HasSubstr("bench")));
}

// What a mixed A/B means, and what comes next, depends on why it is mixed.
TEST(Assess, AKernelThatWonOnlyInItsOpenedRegionIsSentToAPresetThatRunsIt) {
  auto story = Story().verify().ab("mixed");
  story.last().details["record"] = {{"reason", "shadowed"}};
  AssessRequest ask = request();
  ask.opened_by = {{"mlp", "parts"}};
  ask.presets_on_path = {"cpu-strong"};
  const auto a = assess(story.events, ask);
  EXPECT_EQ(a.answer, "stabilize-integration");
  EXPECT_EQ(a.next.command, "kernel-lab integration-ab --workspace w --preset cpu-strong");
  EXPECT_THAT(a.next.why, HasSubstr("a win there counts"));
  EXPECT_THAT(a.blockers, Contains(HasSubstr("not the path that the preset runs today")));
  EXPECT_THAT(a.notes, Contains(HasSubstr("mlp=parts")));

  ask.presets_on_path.clear();
  EXPECT_THAT(assess(story.events, ask).next.command, HasSubstr("kernel-lab bench"));
}

TEST(Assess, AFasterKernelThatNeedsMoreMemoryIsNotToldToRunMorePairs) {
  auto story = Story().verify().ab("mixed");
  story.last().details["record"] = {{"reason", "memory"}};
  const auto a = assess(story.events, request());
  EXPECT_THAT(a.next.command, HasSubstr("kernel-lab verify"));
  EXPECT_THAT(a.next.why, HasSubstr("more memory"));
}

TEST(Assess, AnUndecidedComparisonPassesOnItsOwnRemedy) {
  auto story = Story().verify().ab("inconclusive");
  story.last().details["record"] = {{"remedy", "about 40 pairs would decide"}};
  EXPECT_EQ(assess(story.events, request()).next.why, "undecided: about 40 pairs would decide");
  story.last().details["record"]["n_needed"] = 40;
  EXPECT_THAT(assess(story.events, request()).next.command, HasSubstr(" --pairs 16"));
  story.last().details["record"]["n_needed"] = 6;
  EXPECT_THAT(assess(story.events, request()).next.command, HasSubstr(" --pairs 8"));
}

// Each field of an A/B's or a verify's identity: changing it makes the evidence stale, with a
// reason.
TEST(Assess, EvidenceGoesStaleWhenAnythingItDependsOnChanges) {
  struct Change {
    const char* name;
    std::string Identity::*field;
    bool verify_stale, ab_stale;
  };
  const std::vector<Change> changes = {{"flags", &Identity::flags, true, true},
                                       {"harness", &Identity::harness, true, false},
                                       {"case plan", &Identity::case_plan, true, false},
                                       {"seams", &Identity::seams, false, true},
                                       {"trainer", &Identity::trainer, false, true}};
  const auto story = Story().calibration(0.1).verify().ab("validated");
  for (const auto& change : changes) {
    auto ask = request();
    ask.now.*change.field = "changed";
    const auto a = assess(story.events, ask);
    EXPECT_EQ(a.answer == "needs-verify", change.verify_stale) << change.name;
    EXPECT_EQ(a.integration.empty(), change.ab_stale) << change.name;
    const auto of_candidate = std::count_if(a.stale.begin(), a.stale.end(),
                                            [](const auto& line) { return line.event_type != "calibration"; });
    EXPECT_EQ(of_candidate, change.verify_stale + change.ab_stale) << change.name;
    for (const auto& line : a.stale) EXPECT_FALSE(line.because.empty()) << change.name;
  }
  const auto other_champion = assess(story.events, with_champion(kOldChampion));
  EXPECT_EQ(other_champion.state, "stale");
  EXPECT_THAT(other_champion.stale.at(0).because, Contains("champion changed"));
}

TEST(Assess, WhatAKernelWasPromotedOnSaysThatItsChampionIsTheOneReplaced) {
  const auto a = assess(Story().calibration(0.1).verify().bench("improved", 0.5).ab("validated").events, with_champion(kCandidate));
  ASSERT_EQ(a.answer, "already-champion");
  ASSERT_FALSE(a.stale.empty());
  for (const auto& line : a.stale) {
    if (line.event_type == "calibration") continue;
    EXPECT_THAT(line.because, testing::ElementsAre("it is against the champion that this kernel replaced")) << line.event_type;
  }
}

TEST(Assess, AFieldThatOnlyTheEventLacksIsAReason) {
  auto story = Story().calibration(0.1).verify();
  story.last().identity.harness = "";
  const auto a = assess(story.events, request());
  EXPECT_EQ(a.answer, "needs-verify");
  EXPECT_THAT(a.stale.at(0).because, Contains("harness not recorded"));
}

TEST(Assess, EvidenceOfAnotherMachineClassIsShownAndNeverMixed) {
  auto story = Story().verify().ab("validated");
  for (auto& event : story.events) event.identity.fingerprint_class = "elsewhere";
  const auto a = assess(story.events, request());
  EXPECT_EQ(a.state, "no-evidence");
  EXPECT_EQ(a.other_class.size(), 2u);
  EXPECT_EQ(a.tries, 0);
}

TEST(Assess, VersionOneEvidencePromotesNothing) {
  auto story = Story().verify().ab("validated").promotion();
  for (auto& event : story.events) {
    event.ledger_schema_version = 1;
    event.id = "";
  }
  const auto a = assess(story.events, with_champion(kCandidate));
  EXPECT_EQ(a.state, "no-evidence");
  EXPECT_EQ(a.unidentified.size(), 3u);
  EXPECT_EQ(assess(story.events, without_candidate()).candidate_hash, "");
}

TEST(Assess, OtherTargetsEnginesAndPresetsDoNotCount) {
  auto story = Story().verify().verify().verify();
  story.events[0].target = "loss_prelude";
  story.events[1].engine = "cuda";
  story.events[2].preset = "cpu-balanced";
  const auto a = assess(story.events, request());
  EXPECT_EQ(a.state, "no-evidence");
  EXPECT_THAT(a.heuristic, IsEmpty());
}

TEST(Assess, TheShareComesFromTheNewestCurrentSource) {
  auto story = Story().calibration(0.10).verify().ab("inconclusive");
  story.last().details["seam_share"] = {{"rmsnorm", 0.12}};
  EXPECT_EQ(assess(story.events, request()).seam_share, 0.12);
  story.calibration(0.30);
  story.last().identity.seams = "other champions";
  const auto a = assess(story.events, request());
  EXPECT_EQ(a.seam_share, 0.12);
  EXPECT_EQ(a.trace.size(), 2u);
  EXPECT_THAT(a.stale.at(0).because, Contains("kernel of another seam changed"));
}

TEST(Assess, AnABThatComesNextRepeatsTheFlagsOfTheOneThatRan) {
  auto ask = request();
  ask.ab_flags = " --steps 40 --no-checkpoint";
  ask.ab_pairs = " --pairs 4";
  auto story = Story().calibration(0.1).verify();
  EXPECT_THAT(assess(story.events, ask).next.command, testing::EndsWith("integration-ab --workspace w --preset smoke --pairs 4 --steps 40 --no-checkpoint"));
  story.ab("inconclusive").last().details["record"] = {{"n_needed", 6}};
  EXPECT_THAT(assess(story.events, ask).next.command, testing::EndsWith("integration-ab --workspace w --preset smoke --pairs 8 --steps 40 --no-checkpoint"));
  EXPECT_THAT(assess(Story().calibration(0.1).events, ask).next.command, testing::Not(HasSubstr("--steps")));
}

TEST(Assess, AnUnstableCalibrationIsShownAndNeitherItsShareNorItsNoiseIsUsed) {
  auto story = Story().calibration(0.07, 0.006).verify();
  story.calibration(0.005, 0.09).unstable();
  const auto a = assess(story.events, request());
  EXPECT_EQ(a.seam_share, 0.07);
  EXPECT_EQ(a.delta_eff, 0.006);
  EXPECT_EQ(a.answer, "ready-for-integration");
  ASSERT_EQ(a.stale.size(), 1u);
  EXPECT_THAT(a.stale.front().because, Contains("unstable: other processes used 1.50 processors meanwhile"));
  // Alone it is as good as none.
  const auto alone = assess(Story().calibration(0.005).unstable().events, request());
  EXPECT_FALSE(alone.seam_share.has_value());
  EXPECT_EQ(alone.answer, "needs-capture");
}

TEST(Assess, ANewerTraceSupersedesAJudgementThatHoldsNothingDown) {
  auto story = Story().capture().trace_profile(0.06).auto_review("high");
  EXPECT_EQ(assess(story.events, request()).relevance, "high");
  EXPECT_EQ(assess(story.events, request()).relevance_by, "auto-review");
  EXPECT_EQ(assess(story.capture().trace_profile(0.06).events, request()).relevance, "");
}

// Negative evidence: each cause, what it does, and which newer evidence takes it back.
struct Demoted {
  const char* name;
  Story story;
  std::vector<const char*> moves;  // a part of each sentence, in order
  bool back;                       // nothing holds the target down in the end
};

bool is_held_down(const Assessment& a) {
  return a.answer == "deprioritized" || a.relevance == "none" || a.relevance == "low" || a.diagnosis_weak;
}

std::vector<Demoted> demotions() {
  const auto seen = [] { return Story().capture().trace_profile(0.04); };
  return {
      {"nothing", seen(), {}, true},
      {"low relevance by a person", seen().review("low"), {"a person judged its relevance low at 4.00 % of the step: its score is multiplied by 0.5"}, false},
      {"no relevance by rule", seen().auto_review("none"), {"the auto-review judged its relevance none at 4.00 %"}, false},
      {"a person who thinks otherwise", seen().auto_review("low").review("high"), {"judged its relevance low", "a person judged its relevance high: that the auto-review"}, true},
      {"low relevance and a trace that shows the same", seen().review("low").trace_profile(0.04),
       {"judged its relevance low", "the trace-profile shows 4.00 % of the step: it stays demoted because a person judged its relevance low at 4.00 %, and takes 5.00 % to come back"}, false},
      {"low relevance and a share a little larger", seen().review("low").trace_profile(0.0499), {"judged", "stays demoted"}, false},
      {"low relevance and a share a quarter larger", seen().review("low").trace_profile(0.05),
       {"judged", "the trace-profile shows 5.00 % of the step, 1.00 % more than when a person judged its relevance low: the target is back"}, true},
      {"a quarter of little is not enough", Story().capture().trace_profile(0.012).review("low").trace_profile(0.0165), {"judged", "takes 1.70 %"}, false},
      {"half a point of little is", Story().capture().trace_profile(0.012).review("low").trace_profile(0.018), {"judged", "the target is back"}, true},
      {"a smaller share does not bring it back", seen().review("none").trace_profile(0.03), {"judged", "stays demoted"}, false},
      {"the newest of several unchanged traces is told", seen().review("low").trace_profile(0.041).trace_profile(0.042), {"judged", "shows 4.20 %"}, false},
      {"back, and judged again", seen().review("low").trace_profile(0.06).review("none"), {"low at 4.00 %", "the target is back", "none at 6.00 %"}, false},
      {"another preset's trace", [&] { auto s = seen().review("low").trace_profile(0.4); s.last().preset = "cpu-strong"; return s; }(), {"judged"}, false},
      {"a regressed A/B", seen().verify().ab("regressed"), {"the integration-ab says regressed at 4.00 % of the step: deprioritized, and its score is multiplied by 0.1"}, false},
      {"an equivalent A/B", seen().verify().ab("equivalent"), {"the integration-ab says equivalent at 4.00 %"}, false},
      {"an equivalent A/B and the same share", seen().verify().ab("equivalent").trace_profile(0.04), {"equivalent", "stays demoted because the integration-ab says equivalent at 4.00 %"}, false},
      {"an equivalent A/B and a larger share", seen().verify().ab("equivalent").trace_profile(0.06), {"equivalent", "6.00 % of the step, 2.00 % more than when the integration-ab says equivalent: the target is back"}, true},
      {"a regressed A/B and a larger share", seen().verify().ab("regressed").trace_profile(0.06), {"regressed", "the target is back"}, true},
      {"an A/B at a share that nobody knew", Story().verify().ab("equivalent").trace_profile(0.3), {"says equivalent: deprioritized", "at a share that nobody knew"}, false},
      {"a newer A/B that wins", seen().verify().ab("equivalent").ab("validated"), {"equivalent", "the integration-ab says validated: that the integration-ab says equivalent no longer holds it down"}, true},
      {"a weak diagnosis", seen().deep_profile("mixed", 0.9), {"the deep-profile calls it mixed with confidence 0.90, which is weak at 4.00 % of the step: its score is halved until a person has judged it"}, false},
      {"a weak diagnosis that a person has judged", seen().deep_profile("mixed", 0.9).review("medium"), {"weak", "a person has judged it since"}, true},
      {"a weak diagnosis and a larger share", seen().deep_profile("compute-bound", 0.4).trace_profile(0.06), {"weak", "the target is back"}, true},
      {"a newer diagnosis", seen().deep_profile("compute-bound", 0.4).deep_profile("compute-bound", 0.9), {"weak", "the deep-profile is not weak"}, true},
      {"a bound too small", Story().capture().trace_profile(0.004), {"the trace-profile leaves at most 0.40 % of the step to gain, and 0.50 % is needed: deprioritized"}, false},
      {"a bound that grew", Story().capture().trace_profile(0.004).trace_profile(0.02), {"leaves at most 0.40 %", "the trace-profile leaves up to 2.00 % of the step to gain"}, true},
      {"a bound that shrank further", Story().capture().trace_profile(0.004).trace_profile(0.002), {"the trace-profile leaves at most 0.20 % of the step to gain"}, false},
      {"a bound that grew and stays too small", Story().capture().trace_profile(0.002).trace_profile(0.004), {"the trace-profile leaves at most 0.40 % of the step to gain"}, false},
      {"a share from the A/B of another kernel", Story().capture().trace_profile(0.004).of(kOther).ab("inconclusive").with_share(0.001).of(kCandidate).verify(), {"the integration-ab leaves at most 0.10 % of the step to gain"}, false},
      {"a bench that cannot matter", seen().verify().bench("improved", 0.95), {"the bench leaves at most 0.20 % of the step to gain"}, false},
  };
}

TEST(Assess, NegativeEvidenceDemotesAtOnceAndALargerShareTakesItBack) {
  for (const Demoted& row : demotions()) {
    auto story = row.story;
    const auto a = assess(story.events, request());
    EXPECT_EQ(is_held_down(a), !row.back) << row.name;
    ASSERT_EQ(a.moves.size(), row.moves.size()) << row.name << ": " << fmt::format("{}", fmt::join(a.moves, " | "));
    for (size_t i = 0; i < row.moves.size(); ++i) EXPECT_THAT(a.moves[i], HasSubstr(row.moves[i])) << row.name;
  }
}

TEST(Assess, AComparisonThatALargerShareTookBackIsMeasuredAgainAndConfirmed) {
  auto story = Story().capture().trace_profile(0.04).verify().ab("equivalent").trace_profile(0.06);
  const auto back = assess(story.events, request());
  EXPECT_EQ(back.next.why, "its share of the step has grown since the last A/B: measure again");
  EXPECT_FALSE(back.integration.at(0).counts);
  EXPECT_THAT(back.integration[0].because, Contains(HasSubstr("larger share")));
  EXPECT_EQ(back.tries, 1);  // the lost one remains a try
  EXPECT_EQ(assess(story.ab("validated").events, request()).answer, "needs-confirmation");
  EXPECT_EQ(assess(story.ab("validated").events, request()).answer, "ready-to-promote");
}

TEST(Assess, AnImportedTraceHoldsOnAnyMachineAndNamesWhatCanStandIn) {
  auto story = Story().trace_profile(0.2).imported();
  story.last().identity.fingerprint_class = "the machine it ran on";
  const auto traced = assess(story.events, of_import_without_candidate());
  EXPECT_EQ(traced.seam_share, 0.2);
  EXPECT_EQ(traced.next.command, "kernel-lab init --target rmsnorm --workspace workspaces/rmsnorm --preset external:run");
  EXPECT_THAT(traced.notes, Contains(HasSubstr("the most that this one can have")));
  EXPECT_THAT(traced.blockers, Contains(HasSubstr("cannot run the traced program")));

  story.verify();
  story.last().preset = "external:run";
  story.last().identity.seams = story.last().identity.trainer = "";
  const auto verified = assess(story.events, of_import());
  EXPECT_EQ(verified.answer, "needs-integration-adapter");
  EXPECT_EQ(verified.next.command, "kernel-lab promotion-check --target rmsnorm --workspace w --preset cpu-balanced");
  auto alone = of_import();
  alone.stand_in_preset = "";
  EXPECT_EQ(assess(story.events, alone).next.command, "kernel-lab list-targets --status");
}

TEST(Assess, ANameUnderWhichNothingIsFiledSaysWhatIs) {
  auto ask = of_import_without_candidate();
  ask.preset = "external:rnu";
  const auto a = assess(Story().trace_profile(0.2).imported().events, ask);
  EXPECT_EQ(a.next.command, "kernel-lab trace-profile --trace FILE --preset external:rnu");
  EXPECT_THAT(a.notes, Contains("imported traces on file: external:run"));
}

TEST(Assess, SharesOfFamiliesDoNotReplaceThoseOfTheSeamItself) {
  auto story = Story().capture().trace_profile(0.04).review("low").trace_profile(0.3).of_families();
  const auto a = assess(story.events, request());
  EXPECT_EQ(a.seam_share, 0.04);
  EXPECT_EQ(a.relevance, "low");
  EXPECT_THAT(a.stale.at(0).because, Contains(HasSubstr("the seam's own is known")));
  auto first = Story().trace_profile(0.3).of_families();
  EXPECT_EQ(assess(first.events, request()).seam_share, 0.3);
  EXPECT_EQ(assess(first.trace_profile(0.04).events, request()).seam_share, 0.04);
}

TEST(Assess, ACalibrationOfSeveralPresetsIsReadByPreset) {
  auto story = Story().calibration(0.1);
  story.last().preset = "";
  story.last().details = {
      {"record",
       {{"seam_share", {{"smoke", {{"rmsnorm", 0.07}}}, {"big", {{"rmsnorm", 0.5}}}}},
        {"aa", {{"smoke", {{"delta_eff", 0.02}}}}}}}};
  const auto a = assess(story.events, request());
  EXPECT_EQ(a.seam_share, 0.07);
  EXPECT_EQ(a.delta_eff, 0.02);
  EXPECT_EQ(a.gain_threshold, 0.02);
}

// Before calls were counted by operation a record held one number.
TEST(Assess, LedgersFromBeforeCallsByOperationAreRead) {
  auto story = Story().calibration(0.08).verify().bench("improved", 0.75).ab("validated");
  const Json shape = {{"axes", {{"N", 512}, {"C", 64}}}, {"dtype", "f32"}, {"calls_per_step", 6}};
  for (LedgerEvent& event : story.events)
    event.details["record"] = {{"shapes", {shape}}, {"calls_per_step", 6},
                               {"calls_expected_per_step", 6}, {"calls_seen_per_step", 6}};
  const auto folder = TemporaryFolder::create("kl-old-ledger").value();
  const Ledger ledger(folder.path() / "ledger.jsonl");
  for (LedgerEvent& event : story.events) ASSERT_TRUE(ledger.append(std::move(event)).ok());
  const auto reading = ledger.read().value();
  EXPECT_TRUE(reading.health.clean());
  const auto a = assess(reading.events, request());
  EXPECT_EQ(a.answer, "ready-to-promote");
  EXPECT_NEAR(a.gain_bound.value_or(0), 0.02, 1e-15);
}

TEST(Assess, GainBoundIsShareTimesGainOfTheBench) {
  const auto a =
      assess(Story().calibration(0.08).verify().bench("improved", 0.75).events, request());
  ASSERT_TRUE(a.gain_bound.has_value());
  EXPECT_NEAR(*a.gain_bound, 0.02, 1e-15);
  EXPECT_EQ(a.gain_threshold, 0.005);
}

TEST(Assess, AnUnchangedChampionIsVerifiedOnceAndThenWaitsForAChange) {
  auto ask = request();
  ask.candidate_hash = kChampion;
  ask.workspace = "w";
  const auto fresh = assess(Story(kChampion).events, ask);
  EXPECT_EQ(fresh.answer, "already-champion");
  EXPECT_EQ(fresh.next.command, "kernel-lab verify --workspace w --preset smoke");
  ask.preset = "";  // of a target without a seam
  EXPECT_EQ(assess(Story(kChampion).events, ask).next.command, "kernel-lab verify --workspace w");
  ask.preset = "smoke";
  const auto known = assess(Story(kChampion).verify().bench("equivalent", 1.0).events, ask);
  EXPECT_EQ(known.answer, "already-champion");
  EXPECT_THAT(known.next.command, HasSubstr("# after changing"));
}

TEST(Assess, CommandsCarryTheGlobalFlagsAndQuoteFolders) {
  auto ask = request();
  ask.workspace = "my work/it's";
  ask.command_prefix = "kernel-lab --engine cpu";
  const auto a = assess(Story().calibration(0.1).verify().events, ask);
  EXPECT_EQ(a.next.command,
            "kernel-lab --engine cpu integration-ab --workspace 'my work/it'\\''s' --preset smoke");
}

TEST(Assess, BlockersSayEverythingThatIsMissing) {
  const auto a = assess({}, request());
  EXPECT_EQ(a.blockers.size(), 2u);
  EXPECT_THAT(a.blockers, Contains(HasSubstr("verify")));
  EXPECT_THAT(a.blockers, Contains(HasSubstr("A/B")));
}

TEST(Evidence, EveryEventTypeOfTheLedgerHasItsRowOfIdentityFields) {
  for (const auto& type : ledger_event_types()) EXPECT_FALSE(identity_fields(type).empty()) << type;
  EXPECT_EQ(identity_table().size(), ledger_event_types().size());
}

}  // namespace
}  // namespace kl
