// Families of work: the words in which traces of different programs can be compared. The families of
// seams and of the trainer's own work are the table in families.cpp.
#pragma once

#include <string_view>
#include <vector>

namespace kl::trace {

inline constexpr std::string_view kUnknownFamily = "unknown";

// Of a seam (its target's key), of matrix products ("matmul") and of a trainer's own passes
// ("trainer/embedding"); unknown where the table has none.
std::string_view family_of_work(std::string_view subject);

// The targets of the catalogue whose work is of that family; none for conv, collective and others without a target.
std::vector<std::string_view> targets_of_family(std::string_view family);

// What comes before the last '/': "rmsnorm" of "rmsnorm/forward"; the whole where there is none.
std::string_view subject_of(std::string_view name);
// What comes after it, or empty.
std::string_view part_of(std::string_view name);

}  // namespace kl::trace
