#include "report_page.hpp"

#include <lab/core/clock.hpp>
#include <lab/flow/external.hpp>
#include <lab/report/evidence_page.hpp>

namespace kl::app {

Result<Page> report_page(const Context& context, const Catalogue& catalogue, const Assessment& assessment) {
  KL_TRY(const Target target, catalogue.find(assessment.target));
  KL_TRY(const LedgerReading reading, Ledger(context.ledger).query({.engine = assessment.engine,
                                                                    .event_types = assessed_event_types()}));
  ReportRequest request;
  request.assessment = assessment;
  request.seam = is_external(assessment.preset) ? target.key : target.seam;
  request.events = reading.events;
  request.objects = context.objects().root();
  request.samples = context.samples().root();
  request.command_prefix = "kernel-lab" + context.global_flags;
  request.written_at = utc_now();
  return evidence_page(gather_report(request));
}

}  // namespace kl::app
