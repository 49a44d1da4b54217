// What every importer ends with, and which times it believes.
#pragma once

#include <lab/core/result.hpp>
#include <lab/trace/model.hpp>

#include <filesystem>
#include <optional>
#include <string_view>

namespace kl::trace {

// Nothing for what ends before it begins, or holds times in which sums could overflow: nanoseconds since 1970 are
// 2^61 at most, and nothing lasts 13 days.
std::optional<Span> sensible_span(std::optional<int64_t> begin, std::optional<int64_t> end);

// Records of one kind that were left out because they make no sense, as one gap.
void add_left_out(TraceModel& model, std::string_view where, int64_t senseless, int64_t read);

// For activities that do not say which process enqueued them: that of the call with their correlation, or the only one.
void find_processes(TraceModel& model);

// Names the devices and streams that only activities name, and adds a gap for what is missing altogether; `diagnosis`
// ("; the tool said …") says why there is no work. `insufficient_trace_data` when there is nothing at all.
Result<TraceModel> finish(TraceModel model, const std::filesystem::path& path, std::string_view diagnosis = {});

}  // namespace kl::trace
