// The trace of a trainer whose host code is the device: its range events, as a trace model.
#pragma once

#include <lab/integration/trainer_run.hpp>
#include <lab/trace/model.hpp>

#include <string_view>

namespace kl {

// Steps, seams ("rmsnorm/forward") and other work ("matmul/…", "trainer/…") become ranges, and those the
// activities of one device of that name. Steps without sensible times are left out, and counted in a gap.
trace::TraceModel range_trace(const TrainerRun& run, std::string_view device);

}  // namespace kl
