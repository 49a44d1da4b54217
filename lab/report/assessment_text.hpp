#pragma once

#include <lab/flow/assess.hpp>
#include <lab/report/style.hpp>

#include <string>

namespace kl {

// promotion-check: state, answer, what stands in the way.
std::string assessment_text(const Assessment& assessment, const Style& style);
// evidence: everything the ledger knows, grouped, with what is stale and why.
std::string evidence_text(const Assessment& assessment, const Style& style);

}  // namespace kl
