#pragma once

#include <lab/report/evidence_report.hpp>
#include <lab/report/page.hpp>

namespace kl {

// The report as a page: state and next step, A/B, bench samples, roofline, share, history,
// provenance. A section without evidence says so and names the command that fills it.
Page evidence_page(const EvidenceReport& report);

}  // namespace kl
