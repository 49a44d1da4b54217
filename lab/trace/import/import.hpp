// Traces of any tool, read by what they are, not by their file's name. One file of this folder a format.
#pragma once

#include <lab/core/result.hpp>
#include <lab/trace/model.hpp>

#include <filesystem>

namespace kl::trace {

// Errors: `usage` for no file and for content that is no trace, `insufficient_trace_data` for a trace that holds
// nothing or cannot be opened; both name the file and the cause. What can be read of a damaged one is kept, and the
// loss is among the model's gaps.
Result<TraceModel> read_trace(const std::filesystem::path& path);

// SQLite in the layout of Nsight Systems exports, which the lab's own file has.
Result<TraceModel> read_sqlite_trace(const std::filesystem::path& path);
// Chrome trace JSON of PyTorch's profiler, plain or gzip.
Result<TraceModel> read_kineto(const std::filesystem::path& path);

}  // namespace kl::trace
