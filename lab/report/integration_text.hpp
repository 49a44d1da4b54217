#pragma once

#include <lab/integration/integration_ab.hpp>
#include <lab/integration/integration_suite.hpp>
#include <lab/report/style.hpp>

#include <string>

namespace kl {

// Pairs, speed-up with its interval, every gate with its numbers, and the verdict.
std::string integration_text(const IntegrationRecord& record, const Style& style);
// A row a preset, and the verdict over all of them.
std::string suite_text(const SuiteRecord& suite, const Style& style);
// What the pairs say, without a verdict: that is calibrate's.
std::string aa_text(const AaRecord& record, const Style& style);

}  // namespace kl
