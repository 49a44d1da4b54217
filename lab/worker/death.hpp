// Why a worker is gone, from what its last moments left behind.
#pragma once

#include <lab/worker/shared_buffers.hpp>
#include <lab/worker/status_page.hpp>
#include <lab/worker/worker.hpp>

#include <string_view>

namespace kl {

std::string_view to_string(Phase phase);
// The rule that a denied system call breaks: "child-process", "writes-file", "network", …
std::string_view rule_of_system_call(std::string_view name, const uint64_t (&arguments)[3], uint64_t arena);
// `wait_status` as waitpid gives it; `arena` is where the shared buffers begin.
Fault fault_of_death(const StatusPage& page, int wait_status, const SharedBuffers& buffers,
                     uint64_t arena);

}  // namespace kl
