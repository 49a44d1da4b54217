// The report about one target, from the ledger: what evidence prints and promote leaves behind.
#pragma once

#include "session.hpp"

#include <lab/report/page.hpp>

namespace kl::app {

// Reads the records and samples behind the assessment; what was measured is not judged again.
Result<Page> report_page(const Context& context, const Catalogue& catalogue, const Assessment& assessment);

}  // namespace kl::app
