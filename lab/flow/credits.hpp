// What a trace's timing credits targets with, beyond faster kernels.
#pragma once

#include <lab/flow/ranking.hpp>
#include <lab/trace/summary.hpp>

#include <vector>

namespace kl {

// Idle time between short kernels to launch_fusion, exposed copies to data_movement. Not to a target that the step runs another
// way. Before add_family_shares: who has a credit is ranked without kernels of its family.
void add_credits(const trace::Summary& summary, std::vector<TargetFacts>& targets);

}  // namespace kl
