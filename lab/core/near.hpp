// Near matches for a word that is not on a list.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

size_t edit_distance(std::string_view a, std::string_view b);
// At most `limit` candidates close enough to be what was meant, nearest first.
std::vector<std::string> near_matches(std::string_view word, std::span<const std::string> candidates,
                                      size_t limit = 3);
// "did you mean rmsnorm or layernorm?", or the whole list when nothing is near.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

}  // namespace kl
