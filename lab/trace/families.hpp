// Families of work: the words in which traces of different programs can be compared. The families of
// seams and of the trainer's own work are the table in families.cpp.
#pragma once

#include <string_view>

namespace kl::trace {

inline constexpr std::string_view kUnknownFamily = "unknown";

// Of a seam (its target's key), of matrix products ("matmul") and of a trainer's own passes
// ("trainer/embedding"); unknown where the table has none.
std::string_view family_of_work(std::string_view subject);

// What comes before the last '/': "rmsnorm" of "rmsnorm/forward"; the whole where there is none.
std::string_view subject_of(std::string_view name);
// What comes after it, or empty.
std::string_view part_of(std::string_view name);

}  // namespace kl::trace
