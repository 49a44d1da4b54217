// Per-case lines of a bench: times beside the cost model and the measured ceilings.
#pragma once

#include <lab/bench/bench.hpp>
#include <lab/bench/seam_case.hpp>
#include <lab/build/loader.hpp>

namespace kl {

// Bytes and operations of one call by the oracle's cost model. Error when the oracle has none.
Result<oracle::Cost> cost_of(const OracleLibrary& oracle, const OperationData& operation);

// One line per call slot, with medians over the processes that held both arms.
Result<std::vector<BenchCase>> case_lines(const OracleLibrary& oracle,
                                          const std::vector<SeamCase>& cases,
                                          const BenchSamples& samples,
                                          const std::vector<Ceiling>& ceilings);

}  // namespace kl
