#pragma once

#include <lab/bench/deep_profile.hpp>
#include <lab/report/style.hpp>

#include <string>

namespace kl {

std::string deep_profile_text(const DeepProfileRecord& record, const Style& style);

}  // namespace kl
