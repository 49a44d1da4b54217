// Traces for people: what was captured, and what a trace holds.
#pragma once

#include <lab/flow/trace_change.hpp>
#include <lab/integration/capture.hpp>
#include <lab/report/style.hpp>
#include <lab/trace/diff.hpp>
#include <lab/trace/summary.hpp>

#include <string>

namespace kl {

std::string capture_text(const CaptureRecord& record, const Style& style);
std::string import_text(const trace::ImportRecord& record, const Style& style);
std::string diff_text(const trace::TraceDiff& diff, const Style& style);
std::string trace_change_text(const TraceChange& change, const Style& style);
std::string summary_text(const trace::Summary& summary, const Style& style);

}  // namespace kl
