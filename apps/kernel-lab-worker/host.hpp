// The host's side of the conversation: one request at a time, carried out and answered.
#pragma once

#include <lab/worker/channel.hpp>
#include <lab/worker/status_page.hpp>

namespace kl {

// Returns the process's exit code when the parent is gone or the conversation is broken.
int host_candidates(const Channel& channel, StatusPage& status);

}  // namespace kl
