#include "stages.hpp"

#include <unistd.h>

#include <memory>

namespace kl::app {

Progress told_by_stage(const Context& context) {
  if (::isatty(STDERR_FILENO) == 1) return context.progress;
  return [bar = context.progress, note = context.note, last = std::make_shared<std::string>()](const ProgressStep& step) {
    report(bar, step);
    if (step.message.empty() || step.message == *last) return;
    *last = step.message;
    note(step.message);
  };
}

}  // namespace kl::app
