// How much of a step a target can gain at most, as one word, and what a word or a diagnosis does to
// its place in a ranking.
#pragma once

#include <lab/core/result.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

enum class Relevance : uint8_t { none, low, medium, high };
std::string_view to_string(Relevance relevance);
std::optional<Relevance> relevance_from_string(std::string_view name);
std::vector<std::string> relevance_names();

// By the bound on the end-to-end gain: high from 5 % of the step, medium from 2 %, low from 0.5 %.
Relevance relevance_of(double gain_bound);

// Factor of a ranking's score: what is judged relevant rises, what is not sinks.
double weight_of(Relevance relevance);

// A diagnosis by hardware counters or roofline: strong from this confidence on, weak below the
// other or when it is `mixed`; a weak one waits for a person's judgement.
inline constexpr double kStrongConfidence = 0.65;
inline constexpr double kWeakConfidence = 0.5;
bool is_strong(std::string_view diagnosis, double confidence);
bool is_weak(std::string_view diagnosis, double confidence);

// A trace takes negative evidence back when it shows this much more of the step than was known when the evidence came:
// a quarter more, and at least the 0.5 % that can be decided at all.
inline constexpr double kGrowth = 1.25;
inline constexpr double kLeastGrowth = 0.005;
bool has_grown(double share_then, double share_now);

}  // namespace kl
