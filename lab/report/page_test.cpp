#include <lab/report/evidence_page.hpp>

#include <lab/core/hash.hpp>
#include <lab/report/markup.hpp>
#include <lab/report/plots.hpp>
#include <lab/report/svg.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(markup, what_a_document_could_read_as_its_own_is_escaped) {
  EXPECT_EQ(escape_markup("<script>a & \"b\" 'c'</script>"), "&lt;script&gt;a &amp; &quot;b&quot; &#39;c&#39;&lt;/script&gt;");
  EXPECT_EQ(escape_markdown("a|b *c* <i>\nd"), "a\\|b \\*c\\* &lt;i&gt; d");
  EXPECT_EQ(escape_markdown("seam_share _a_ \xFF_x"), "seam_share \\_a\\_ \xEF\xBF\xBD\\_x");
  EXPECT_EQ(markdown_code("a `b` | c"), "``a `b` \\| c``");
  EXPECT_EQ(markdown_code("`"), "`` ` ``");
}

TEST(markup, what_xml_cannot_hold_is_replaced) {
  EXPECT_EQ(escape_markup(std::string_view("a\x1b\0z", 4)), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(escape_markup("\xFFµ\xC3"), "\xEF\xBF\xBDµ\xEF\xBF\xBD");
  EXPECT_EQ(escape_markup("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
}

TEST(svg_scale, ticks_are_round_and_inside) {
  EXPECT_THAT(svg::Scale::linear(-1, 11, 0, 100).ticks(), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(svg::Scale::logarithmic(0.5, 200, 0, 100).ticks(), ElementsAre(1, 10, 100));
  EXPECT_THAT(svg::Scale::logarithmic(1.5, 25, 0, 100).ticks(), ElementsAre(2, 5, 10, 20));
  EXPECT_DOUBLE_EQ(svg::Scale::linear(0, 10, 100, 0)(2.5), 75);
  EXPECT_DOUBLE_EQ(svg::Scale::logarithmic(1, 100, 0, 100)(10), 50);
}

TEST(strip_plot, times_far_out_are_left_out_and_counted) {
  StripPlot plot{"time", "champion", "candidate", {}};
  StripPlot::Arm arm{{}, 100, 100, 100};
  for (int i = 0; i < 100; ++i) arm.times_ns.push_back(90 + i % 20);
  StripPlot::Arm stalled = arm;
  stalled.times_ns.back() = 1e6;
  plot.processes.push_back({"process 1", arm, stalled});
  const StripRange range = strip_range(plot);
  EXPECT_EQ(range.beyond, 1u);
  EXPECT_LT(range.high_ns, 200);
}

// A bench of two processes, with its samples in a store.
struct Evidence {
  TemporaryFolder folder = TemporaryFolder::create("kl-page-test").value();
  std::vector<LedgerEvent> events;
  Assessment assessment;

  Evidence() {
    assessment.target = "rmsnorm";
    assessment.engine = "cpu";
    assessment.preset = "smoke";
    assessment.candidate_hash = "aaaa";
    assessment.champion_hash = "bbbb";
    assessment.state = "no-evidence";
    assessment.answer = "needs-verify";
    assessment.next = {"kernel-lab verify --workspace mine", "is the kernel right?"};
  }

  void add(const RecordHeader& header, const Json& record, std::string type, std::vector<EvidenceLine>& group) {
    LedgerEvent event;
    event.id = "id-" + std::to_string(events.size());
    event.created_at = "2026-12-01T22:05:5" + std::to_string(events.size());
    event.engine = "cpu";
    event.target = "rmsnorm";
    event.preset = "smoke";
    event.event_type = std::move(type);
    event.status = to_string(header.status);
    event.identity.kernel = "aaaa";
    event.details["record"] = record;
    events.push_back(event);
    EvidenceLine line;
    line.id = event.id;
    line.created_at = event.created_at;
    line.event_type = event.event_type;
    line.status = event.status;
    line.kernel = "aaaa";
    line.against = "champion";
    line.counts = true;
    group.push_back(line);
  }

  std::string add_bench(const std::string& samples_of = "") {
    BenchSamples samples;
    samples.calls_per_step = {1};
    samples.slots = {"forward"};
    for (int i = 0; i < 2; ++i) {
      ProcessSeries process;
      process.baseline_cold.worker_ns = {{1000, 1010, 1020, 1030}};
      process.candidate_cold.worker_ns = {{500, 505, 510, 515}};
      samples.processes.push_back(process);
    }
    const std::string hash = ObjectStore(folder.path()).put(dump_line(to_json(samples)), ".json").value();
    BenchRecord record;
    record.status = Status::improved;
    record.baseline = "champion";
    record.ratio = 0.5;
    record.processes = 2;
    record.t95 = record.walsh95 = record.t90 = {std::log(0.5), std::log(0.45), std::log(0.55), 0.95};
    record.samples_file = samples_of.empty() ? hash : samples_of;
    record.identity.fingerprint_class = "machine";
    BenchCase call;
    call.operation = "forward";
    call.axes = {{"C", 128}, {"N", 512}};
    call.calls_per_step = 6;
    call.baseline_cold_ns = 2000;
    call.candidate_cold_ns = 1000;
    call.bytes_read = call.bytes_written = 10000;
    call.flops = 10000;
    call.baseline_gb_per_s = 10;
    call.candidate_gb_per_s = 20;
    call.ceiling_gb_per_s = 25;
    record.cases = {call};
    add(record, to_json(record), "bench", assessment.heuristic);
    return hash;
  }

  void add_calibration() {
    Calibration record;
    record.status = Status::ok;
    record.ceilings = {{1000000, 0.5, true, 30, "1 thread"}};
    record.device = DeviceFigures{};
    record.device->fp32_tflop_per_s = 0.2;
    add(record, to_json(record), "calibration", assessment.trace);
    events.back().identity.fingerprint_class = "machine";
    events.back().details["seam_share"] = {{"smoke", {{"rmsnorm", 0.08}, {"reduce", 0.02}}}};
    assessment.seam_share = 0.08;
    assessment.share_from = "calibration";
    assessment.gain_bound = 0.04;
  }

  void add_ab() {
    IntegrationRecord record;
    record.status = Status::validated;
    record.against = "champion";
    record.explanation = "+5.00 % <b>speed</b>";
    record.tries = 2;
    for (int i = 0; i < 4; ++i) {
      Pair pair;
      pair.index = i;
      pair.order = "AB";
      pair.baseline.step_ns = 1.05e7;
      pair.candidate.step_ns = 1e7;
      pair.log_ratio = -0.05 - 0.001 * i;
      record.pairs.push_back(pair);
    }
    record.look.pairs = 4;
    record.look.delta = 0.01;
    record.look.mean_log_ratio = -0.0515;
    record.look.interval = record.look.t_95 = {-0.0515, -0.06, -0.04, 0.95};
    add(record, to_json(record), "integration-ab", assessment.integration);
  }

  Page page() const {
    ReportRequest request;
    request.assessment = assessment;
    request.seam = "rmsnorm";
    request.events = events;
    request.objects = request.samples = folder.path();
    request.written_at = "2026-12-02T10:00:00Z";
    return evidence_page(gather_report(request));
  }
};

const Section& section_of(const Page& page, std::string_view id) {
  for (const auto& section : page.sections)
    if (section.id == id) return section;
  throw std::logic_error("no section " + std::string(id));
}
template <class T>
std::vector<T> blocks_of(const Section& section) {
  std::vector<T> found;
  for (const auto& block : section.blocks)
    if (const T* one = std::get_if<T>(&block)) found.push_back(*one);
  return found;
}

TEST(evidence_page, its_sections_come_in_the_order_they_are_read) {
  std::vector<std::string> ids;
  for (const auto& section : Evidence().page().sections) ids.push_back(section.id);
  EXPECT_THAT(ids, ElementsAre("state", "trainer", "bench", "roofline", "share", "history", "provenance"));
}

TEST(evidence_page, without_evidence_a_section_says_so_and_names_the_command) {
  const Page page = Evidence().page();
  for (const auto* id : {"trainer", "bench", "roofline", "share", "history", "provenance"}) {
    const Section& section = section_of(page, id);
    EXPECT_FALSE(blocks_of<Paragraph>(section).empty()) << id;
    EXPECT_FALSE(blocks_of<CommandBlock>(section).empty()) << id;
    EXPECT_TRUE(blocks_of<Drawing>(section).empty()) << id;
  }
  EXPECT_EQ(blocks_of<CommandBlock>(section_of(page, "bench")).at(0).command,
            "kernel-lab bench --workspace workspaces/rmsnorm --preset smoke");
}

TEST(evidence_page, the_same_ledger_gives_the_same_page) {
  Evidence evidence;
  evidence.add_bench();
  evidence.add_ab();
  EXPECT_EQ(page_html(evidence.page()), page_html(evidence.page()));
}

TEST(evidence_page, bench_draws_the_processes_of_its_samples_file) {
  Evidence evidence;
  evidence.add_bench();
  const Section bench = section_of(evidence.page(), "bench");
  ASSERT_EQ(blocks_of<Drawing>(bench).size(), 2u);
  EXPECT_THAT(blocks_of<Drawing>(bench).at(0).svg, HasSubstr("process 2, candidate: median 508 ns"));
}

TEST(evidence_page, the_roofline_has_the_roofs_of_this_machine_class_alone) {
  Evidence evidence;
  evidence.add_bench();
  evidence.add_calibration();
  const Section here = section_of(evidence.page(), "roofline");
  ASSERT_EQ(blocks_of<Drawing>(here).size(), 1u);
  EXPECT_THAT(blocks_of<Drawing>(here).at(0).svg, HasSubstr("memory 30.0 GB/s"));
  EXPECT_THAT(blocks_of<Drawing>(here).at(0).svg, HasSubstr("matrix product 200 GFLOP/s"));
  EXPECT_THAT(blocks_of<Drawing>(here).at(0).svg, HasSubstr("1: ceiling of its footprint and mix 12.50 GFLOP/s"));
  evidence.events.back().identity.fingerprint_class = "another machine";
  const Section elsewhere = section_of(evidence.page(), "roofline");
  EXPECT_TRUE(blocks_of<Drawing>(elsewhere).empty());
  EXPECT_EQ(blocks_of<CommandBlock>(elsewhere).at(0).command, "kernel-lab calibrate --preset smoke");
}

TEST(evidence_page, the_share_is_drawn_with_its_bound_and_what_was_seen) {
  Evidence evidence;
  evidence.add_calibration();
  evidence.add_ab();
  const Section share = section_of(evidence.page(), "share");
  ASSERT_EQ(blocks_of<Drawing>(share).size(), 1u);
  EXPECT_EQ(blocks_of<Drawing>(share).at(0).words,
            "rmsnorm takes 8.00 % of the step (calibration); at most 4.00 % of the step to gain, 0.50 % needed, 5.02 % seen in the trainer.");
  const auto tables = blocks_of<PageTable>(share);
  std::vector<std::string> shares;
  for (const auto& row : tables.at(0).rows) shares.push_back(row.at(0).text + " " + row.at(1).text);
  EXPECT_THAT(shares, ElementsAre("rmsnorm 8.00 %", "reduce 2.0 %", "in no seam 90.0 %", "at most to gain 4.00 %", "stays 4.00 %",
                                  "needed 0.50 %", "seen 5.02 %"));
}

TEST(evidence_page, samples_that_are_gone_or_altered_are_not_drawn) {
  Evidence gone;
  gone.add_bench(std::string(64, '0'));
  EXPECT_THAT(page_markdown(gone.page()), HasSubstr("The processes cannot be drawn: the raw samples 000000"));
  Evidence altered;
  const std::string hash = altered.add_bench();
  const fs::path file = ObjectStore(altered.folder.path()).find(hash).value();
  fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
  ASSERT_TRUE(write_file_atomic(file, read_file(file).value() + " ").ok());
  EXPECT_THAT(page_markdown(altered.page()), HasSubstr("were altered after they were kept"));
}

TEST(evidence_page, a_try_keeps_the_number_it_had_when_it_was_made) {
  Evidence evidence;
  evidence.add_ab();
  const auto tables = blocks_of<PageTable>(section_of(evidence.page(), "history"));
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(tables[0].rows.at(0).at(0).text, "2");
}

TEST(evidence_page, evidence_that_is_stale_is_drawn_and_called_so) {
  Evidence evidence;
  evidence.add_ab();
  evidence.assessment.stale = std::move(evidence.assessment.integration);
  evidence.assessment.integration.clear();
  evidence.assessment.stale[0].counts = false;
  evidence.assessment.stale[0].because = {"champion changed"};
  const Section trainer = section_of(evidence.page(), "trainer");
  EXPECT_EQ(blocks_of<Drawing>(trainer).size(), 1u);
  EXPECT_EQ(blocks_of<Paragraph>(trainer).at(1).text, "This does not count now: champion changed.");
}

TEST(evidence_page, nothing_from_the_ledger_becomes_markup) {
  Evidence evidence;
  evidence.add_ab();
  evidence.assessment.notes = {"<script>alert(1)</script>"};
  evidence.assessment.workspace = "\"><img src=x onerror=y>";
  for (const std::string& text : {page_html(evidence.page()), page_markdown(evidence.page())}) {
    EXPECT_THAT(text, Not(HasSubstr("<script")));
    EXPECT_THAT(text, Not(HasSubstr("<b>speed")));
  }
  EXPECT_THAT(page_html(evidence.page()), Not(HasSubstr("<img")));
}

TEST(evidence_page, a_record_of_another_form_is_named_not_drawn) {
  Evidence evidence;
  evidence.add_ab();
  evidence.events[0].details["record"]["pairs"] = "four";
  const Page page = evidence.page();
  EXPECT_TRUE(blocks_of<Drawing>(section_of(page, "trainer")).empty());
  EXPECT_THAT(page_markdown(page), HasSubstr("field pairs is not an array"));
}

}  // namespace
}  // namespace kl
