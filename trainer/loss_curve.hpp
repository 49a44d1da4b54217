// The loss of a run as a picture of characters, from its event stream.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kl::trainer {

// Losses of the `step` events, in order. usage when the file holds none.
Result<std::vector<double>> read_losses(const std::filesystem::path& events);

// Means of equal shares of the steps, drawn in Braille dots (2 x 4 to a character) with the first
// and last step and the largest and smallest mean as labels. Values that are not finite leave a
// gap.
std::string draw_losses(std::span<const double> losses, int columns, int rows);

}  // namespace kl::trainer
