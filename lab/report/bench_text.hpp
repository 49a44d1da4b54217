#pragma once

#include <lab/bench/bench.hpp>
#include <lab/report/style.hpp>

#include <string>

namespace kl {

// Times by operation and shape, the deciding ratio with its intervals, and the verdict.
std::string bench_text(const BenchRecord& record, const Style& style);
// The verdict in one sentence, without its status.
std::string bench_sentence(const BenchRecord& record);

}  // namespace kl
