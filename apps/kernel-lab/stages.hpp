// What a long verb does now, for people who do not see the progress bar.
#pragma once

#include "command.hpp"

namespace kl::app {

// The context's progress; where stderr is no terminal, also a line for each new stage.
Progress told_by_stage(const Context& context);

}  // namespace kl::app
