// A part of a trace, chosen by its user.
#pragma once

#include <lab/core/result.hpp>
#include <lab/trace/model.hpp>

#include <string_view>

namespace kl::trace {

// "3:8": the steps 3 to 8 in their order, the first is 1. "0.5s:2s" (also ms, us): that time from where the window began; of a
// trace with steps, those that lie in it whole. Either end may be left out. usage: no such text, no steps, none of them in it,
// a trace without moments.
Outcome cut_window(TraceModel& model, std::string_view text);

}  // namespace kl::trace
