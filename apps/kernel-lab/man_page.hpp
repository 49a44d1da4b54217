// kernel-lab(1) in troff.
#pragma once

#include "flag_table.hpp"

namespace kl::app {

std::string man_page(const FlagTable& table);

}  // namespace kl::app
