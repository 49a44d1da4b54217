// Traces of any tool, read by what they are, not by their file's name. One file of this folder a format.
#pragma once

#include <lab/core/result.hpp>
#include <lab/trace/model.hpp>

#include <filesystem>

namespace kl::trace {

class SqliteFile;

// Errors: `usage` for no file and for content that is no trace, `insufficient_trace_data` for a trace that holds
// nothing or cannot be opened; both name the file and the cause. What can be read of a damaged one is kept, and the
// loss is among the model's gaps.
Result<TraceModel> read_trace(const std::filesystem::path& path);

// Each of one format; read_trace knows which. SQLite files are told apart by their tables.
Result<TraceModel> read_nsys_sqlite(const SqliteFile& file);  // and the lab's own, which has that layout
Result<TraceModel> read_rocpd(const SqliteFile& file);
Result<TraceModel> read_rpd(const SqliteFile& file);
Result<TraceModel> read_kineto(const std::filesystem::path& path);
Result<TraceModel> read_rocprof_json(const std::filesystem::path& path);
Result<TraceModel> read_rocprof_csv(const std::filesystem::path& path);
Result<TraceModel> read_nsys_stats(const std::filesystem::path& path);
Result<TraceModel> read_ncu_csv(const std::filesystem::path& path);

}  // namespace kl::trace
