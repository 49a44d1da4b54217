#include <lab/flow/profile.hpp>
#include <lab/flow/trace_change.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

// Trace-profiles of one family each, oldest first, and the assessment that shows them.
struct Filed {
  std::vector<LedgerEvent> events;
  Assessment assessment;

  Filed& profile(const std::string& trace_hash, int64_t kernel_ns, const std::string& machine = "here", Status status = Status::ok) {
    auto record = new_record<TraceProfileRecord>();
    record.status = status;
    record.trace = trace_hash + ".sqlite";
    record.trace_hash = trace_hash;
    record.summary.window_ns = record.summary.bottleneck.split.whole_ns = 100;
    record.summary.steps = 1;
    record.summary.bottleneck.split.kernel_ns = kernel_ns;
    record.summary.bottleneck.split.idle_unknown_ns = 100 - kernel_ns;
    if (kernel_ns > 0) {
      record.summary.families.resize(1);
      record.summary.families[0].family = "norm";
      record.summary.families[0].kernel_sum_ns = kernel_ns;
    }
    LedgerEvent event;
    event.id = std::to_string(events.size());
    event.created_at = "2026-12-0" + event.id;
    event.event_type = "trace-profile";
    event.identity.fingerprint_class = machine;
    event.details["record"] = to_json(record);
    events.push_back(event);
    EvidenceLine line;
    line.id = event.id;
    line.event_type = event.event_type;
    (events.size() % 2 == 0 ? assessment.trace : assessment.stale).push_back(line);
    return *this;
  }
  std::optional<TraceChange> change() const { return newest_trace_change(events, assessment); }
};

TEST(trace_change, is_between_the_last_two_traces_from_their_records) {
  const auto change = Filed().profile("x", 10).profile("a", 40).profile("b", 70).change();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->before_at, "2026-12-01");
  EXPECT_EQ(change->after_id, "2");
  EXPECT_EQ(change->diff.before.file, "a.sqlite");
  ASSERT_EQ(change->diff.families.size(), 1u);
  EXPECT_EQ(change->diff.families[0].change_ns, 30);
}

TEST(trace_change, passes_over_other_machines_the_same_trace_and_failures) {
  const auto change =
      Filed().profile("a", 40).profile("b", 50, "elsewhere").profile("c", 60, "here", Status::insufficient_trace_data).profile("empty", 0).profile("d", 70).profile("d", 70).change();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->before_id, "0");
  EXPECT_EQ(change->after_id, "5");
}

TEST(trace_change, needs_two) {
  EXPECT_FALSE(Filed().change());
  EXPECT_FALSE(Filed().profile("a", 40).change());
  EXPECT_FALSE(Filed().profile("a", 40).profile("a", 40).change());
  Filed unshown = Filed().profile("a", 40).profile("b", 40);
  unshown.assessment.stale.clear();  // of another preset or machine class
  EXPECT_FALSE(unshown.change());
}

TEST(trace_change, a_record_that_cannot_be_read_is_no_trace) {
  Filed filed = Filed().profile("a", 40).profile("b", 50).profile("c", 60);
  filed.events[1].details["record"]["summary"] = "gone";
  const auto change = filed.change();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->before_id, "0");
}

}  // namespace
}  // namespace kl
