#pragma once

#include <lab/flow/promotion.hpp>
#include <lab/report/style.hpp>

#include <string>

namespace kl {

struct PromotionRecord : RecordHeader {
  static constexpr std::string_view kSchema = "promotion";
  std::string champion;  // the file that is, or would be, replaced
  std::string state;     // before the promotion
  std::string answer;
  int64_t verified_cases = 0;
  std::string patch;
  std::string report;    // the page with the evidence, or empty
  std::optional<Provenance> provenance;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("champion", self.champion, "file that is, or would be, replaced");
    v("state", self.state, "promotion state before");
    v("answer", self.answer, "answer of promotion-check before");
    v("verified_cases", self.verified_cases, "cases of the verify that promote ran itself");
    v("patch", self.patch, "unified diff from champion to candidate");
    v("report", self.report, "file with the whole evidence as a page, or empty");
    v("provenance", self.provenance, "why the champion is what it is; null when refused");
  }
};

// The patch, the report (percent gained beside lines added) and the verdict.
std::string promotion_text(const PromotionRecord& record, const Style& style);

}  // namespace kl
