// What works here and what does not, with the exact remedy.
#pragma once

#include <lab/engine/engine.hpp>

#include <vector>

namespace kl::cuda {

std::vector<DoctorLine> doctor();

// From the text of /proc/driver/nvidia/params: whether counters are for administrators only.
// Nothing when the text does not say.
std::optional<bool> counters_are_restricted(const std::string& params);

}  // namespace kl::cuda
