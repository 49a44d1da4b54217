#pragma once

#include <lab/integration/integration_ab.hpp>
#include <lab/report/style.hpp>

#include <string>

namespace kl {

// Pairs, speed-up with its interval, every gate with its numbers, and the verdict.
std::string integration_text(const IntegrationRecord& record, const Style& style);
std::string aa_text(const AaRecord& record, const Style& style);

}  // namespace kl
