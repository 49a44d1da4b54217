#include <lab/flow/external.hpp>

#include <lab/trace/families.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace kl {
namespace {

constexpr std::string_view kPrefix = "external:";
constexpr size_t kLongestName = 80;

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-'; }

void add_seam_share(const trace::Summary& summary, TargetFacts& one) {
  for (const auto& seam : summary.seams) {
    if (one.seam.empty() || seam.seam != one.seam) continue;
    one.share = seam.share;
    one.share_from = seam.rule;
    if (summary.steps > 0) one.measured_ns = static_cast<double>(seam.kernel_union_ns) / static_cast<double>(summary.steps);
  }
}

void add_family_share(const trace::Summary& summary, TargetFacts& one) {
  for (const auto& family : summary.families) {
    const auto targets = trace::targets_of_family(family.family);
    if (std::find(targets.begin(), targets.end(), one.target) == targets.end()) continue;
    const double share = family.window_share.value_or(family.share);
    if (one.share && *one.share >= share) continue;
    one.share = share;
    one.share_from = fmt::format("{} {}", family.family, family.window_share ? "kernels" : "kernels, of kernel time");
  }
}

}  // namespace

bool is_external(std::string_view preset) { return preset.starts_with(kPrefix); }

std::string stem_of_trace(const std::filesystem::path& trace) {
  std::string name = trace.filename().string();
  for (const std::string_view ending : {".gz", ".json", ".sqlite", ".csv", ".db", ".rpd"})
    if (name.size() > ending.size() && name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

std::string external_preset(const std::filesystem::path& trace) {
  std::string name = stem_of_trace(trace);
  for (char& c : name)
    if (!is_plain(c)) c = '_';
  if (name.size() > kLongestName) name.resize(kLongestName);
  return std::string(kPrefix) + (name.empty() ? "trace" : name);
}

Outcome check_external(std::string_view preset) {
  const std::string_view name = preset.substr(std::min(kPrefix.size(), preset.size()));
  if (!name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), is_plain)) return {};
  return make_error(Status::usage, fmt::format("{} is no name of an imported trace", preset),
                    fmt::format("external: and 1 to {} letters, digits, '.', '_' or '-', as in {}", kLongestName,
                                external_preset(std::string(name))));
}

void add_family_shares(const trace::Summary& summary, std::vector<TargetFacts>& targets) {
  for (TargetFacts& one : targets) {
    if (!one.not_on_path.empty()) continue;
    one.share.reset();
    one.floor_unknown = "the trace does not say the shapes";
    add_seam_share(summary, one);
    if (!one.share) add_family_share(summary, one);
    if (!one.share && one.credited_share <= 0) one.not_on_path = "the trace has no kernels of its family";
  }
  // Of targets with one family, and so one share, first those that have a kernel to start from.
  std::stable_sort(targets.begin(), targets.end(), [](const TargetFacts& a, const TargetFacts& b) {
    return (a.starter == "starter-ready") > (b.starter == "starter-ready");
  });
}

}  // namespace kl
