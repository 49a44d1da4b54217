#include <trainer/loss_curve.hpp>

#include <lab/core/files.hpp>
#include <lab/core/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace kl::trainer {
namespace {

// Bits of a Braille character by column and row (Unicode, ch. 21.1).
constexpr unsigned kDots[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};

std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

std::vector<double> means(std::span<const double> losses, size_t parts) {
  std::vector<double> result(std::min(parts, losses.size()));
  for (size_t p = 0; p < result.size(); ++p) {
    const size_t begin = losses.size() * p / result.size(),
                 end = losses.size() * (p + 1) / result.size();
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += losses[i];
    result[p] = sum / static_cast<double>(end - begin);
  }
  return result;
}

}  // namespace

Result<std::vector<double>> read_losses(const std::filesystem::path& events) {
  KL_TRY(const std::string text, read_file(events));
  std::vector<double> losses;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto event = parse_json(line, events.string());
    if (!event.ok() || !event->is_object() || event->value("event", "") != "step") continue;
    const auto loss = event->find("loss");
    losses.push_back(loss != event->end() && loss->is_number() ? loss->get<double>()
                                                               : std::nan(""));
  }
  if (losses.empty())
    return make_error(Status::usage, events.string() + " holds no step",
                      "give a file that --events wrote");
  return losses;
}

std::string draw_losses(std::span<const double> losses, int columns, int rows) {
  const std::vector<double> values = means(losses, static_cast<size_t>(2 * columns));
  double low = INFINITY, high = -INFINITY;
  for (const double v : values)
    if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  if (!(low <= high)) return "no finite loss\n";
  const double scale = high > low ? (4 * rows - 1) / (high - low) : 0;
  std::vector<std::vector<unsigned>> cells(static_cast<size_t>(rows),
                                           std::vector<unsigned>((values.size() + 1) / 2));
  for (size_t x = 0; x < values.size(); ++x) {
    if (!std::isfinite(values[x])) continue;
    const auto y = static_cast<size_t>(std::lround((high - values[x]) * scale));  // 0 is the top
    cells[y / 4][x / 2] |= kDots[x % 2][y % 4];
  }
  std::string text;
  for (size_t row = 0; row < cells.size(); ++row) {
    text += row == 0                  ? fmt::format("{:8.4f} ", high)
            : row + 1 == cells.size() ? fmt::format("{:8.4f} ", low)
                                      : std::string(9, ' ');
    for (const unsigned cell : cells[row]) text += cell == 0 ? " " : braille(cell);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  const std::string last = fmt::format("step {}", losses.size() - 1);
  text += fmt::format("{:9}0{:>{}}\n", "", last,
                      std::max<size_t>(last.size() + 1, cells[0].size() - 1));
  return text;
}

}  // namespace kl::trainer
