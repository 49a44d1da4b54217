// What the worker does when its candidate dies: write the cause into the status page and leave.
#pragma once

#include <lab/worker/status_page.hpp>

namespace kl {

// For every fatal signal and for denied system calls (SIGSYS).
bool install_signal_handlers(StatusPage* page);
// A stack of its own for the calling thread's handlers, so that a stack overflow can be reported.
void install_signal_stack();

}  // namespace kl
