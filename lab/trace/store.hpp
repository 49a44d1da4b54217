// The lab's own trace file: SQLite in the layout of Nsight Systems exports (CUPTI_ACTIVITY_KIND_*, StringIds,
// NVTX_EVENTS, TARGET_INFO_GPU, META_DATA_EXPORT), so that tools which read those read ours. What that layout has no
// place for is in tables KERNEL_LAB_*. read_trace() (import/import.hpp) gives an equal model back.
#pragma once

#include <lab/core/result.hpp>
#include <lab/trace/model.hpp>

#include <filesystem>

namespace kl::trace {

// Tables without rows are left out, as Nsight Systems does. Written beside and renamed: an old file stays whole until
// the new one is.
Outcome write_trace(const TraceModel& model, const std::filesystem::path& path);

}  // namespace kl::trace
