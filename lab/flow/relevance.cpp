#include <lab/flow/relevance.hpp>

#include <array>
#include <utility>

namespace kl {
namespace {

struct Row {
  Relevance relevance;
  std::string_view name;
  double from;    // of the step
  double weight;
};
constexpr std::array kRows = {
    Row{Relevance::none, "none", 0, 0.1},
    Row{Relevance::low, "low", 0.005, 0.5},
    Row{Relevance::medium, "medium", 0.02, 1},
    Row{Relevance::high, "high", 0.05, 1.25},
};

}  // namespace

std::string_view to_string(Relevance relevance) { return kRows[static_cast<size_t>(relevance)].name; }

std::optional<Relevance> relevance_from_string(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.relevance;
  return std::nullopt;
}

std::vector<std::string> relevance_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Relevance relevance_of(double gain_bound) {
  Relevance relevance = Relevance::none;
  for (const Row& row : kRows)
    if (gain_bound >= row.from) relevance = row.relevance;
  return relevance;
}

double weight_of(Relevance relevance) { return kRows[static_cast<size_t>(relevance)].weight; }

bool is_strong(std::string_view diagnosis, double confidence) {
  return diagnosis != "mixed" && confidence >= kStrongConfidence;
}

bool has_grown(double share_then, double share_now) {
  return share_now >= share_then * kGrowth && share_now - share_then >= kLeastGrowth;
}

bool is_weak(std::string_view diagnosis, double confidence) {
  return diagnosis == "mixed" || confidence < kWeakConfidence;
}

}  // namespace kl
