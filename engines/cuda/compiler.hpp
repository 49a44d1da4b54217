// nvcc, making the shared library of one kernel for the device at hand.
#pragma once

#include <lab/engine/engine.hpp>

#include <string>
#include <vector>

namespace kl::cuda {

std::vector<std::string> kernel_flags(const std::string& architecture);
// Compiler, flags and architecture as one string.
Result<std::string> build_key();
// build_failed carries nvcc's own message, trimmed. As on the host, a kernel is one file: what it
// includes beyond kernel_lab/, the toolkit and the compiler's own headers fails.
Result<CompileReport> compile(const CompileRequest& request);
RunTimeSymbols run_time_symbols();

}  // namespace kl::cuda
