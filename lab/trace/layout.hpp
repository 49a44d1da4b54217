// Names that the writer and the reader of the lab's own trace file share.
#pragma once

#include <cstdint>
#include <string_view>

namespace kl::trace::layout {

inline constexpr std::string_view kProduct = "Kernel Lab";
inline constexpr std::string_view kVersion = "1";

// Rows of META_DATA_EXPORT.
inline constexpr std::string_view kProductName = "EXPORT_PRODUCT_NAME";
inline constexpr std::string_view kProductVersion = "EXPORT_PRODUCT_VERSION";
inline constexpr std::string_view kSchemaVersion = "EXPORT_SCHEMA_VERSION";
inline constexpr std::string_view kTraceVersion = "KERNEL_LAB_TRACE_VERSION";
inline constexpr std::string_view kWindow = "KERNEL_LAB_WINDOW";                  // "each step"
inline constexpr std::string_view kRangesAre = "KERNEL_LAB_RANGES_ARE_DEVICE";    // name of that device
inline constexpr std::string_view kCategories = "KERNEL_LAB_NVTX_CATEGORIES";

// The category of a range is its RangeKind + 1.
inline constexpr std::string_view kCategoryNames = "1 step, 2 seam, 3 work, 4 user";
inline constexpr int64_t kPushPop = 59;  // eventType of a range that a thread opened and closed

}  // namespace kl::trace::layout
