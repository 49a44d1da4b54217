#include <engines/cuda/sanitizer_report.hpp>

#include <cstdlib>
#include <optional>
#include <regex>

namespace kl::cuda {
namespace {

constexpr std::string_view kPrefix = "=========";
constexpr std::string_view kError = "Error: ", kWarning = "Warning: ", kFrame = "Device Frame:";

// A message: its first line and the indented ones below, without prefix and indentation.
struct Block {
  std::string heading;
  std::vector<std::string> lines;
};

std::vector<Block> blocks_of(std::string_view log) {
  std::vector<Block> blocks;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    std::string_view line = log.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(kPrefix)) continue;
    line.remove_prefix(kPrefix.size());
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    const size_t text = line.find_first_not_of(' ');
    if (text == std::string_view::npos) continue;
    if (text <= 1)
      blocks.push_back({std::string(line.substr(text)), {}});
    else if (!blocks.empty())
      blocks.back().lines.emplace_back(line.substr(text));
  }
  return blocks;
}

struct Location {
  std::string kernel, place;
};

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "f(int)+0x40 in kernel.cu:7", "f(int)+0x40", "0x40 in kernel.cu:7:f(int)", "0x40 in f(int)".
Location location_of(std::string text) {
  text = std::regex_replace(text, std::regex(R"( \[\d+ hazards?\]$)"), "");
  std::smatch found;
  if (std::regex_match(text, found, std::regex(R"(0x[0-9a-f]+ in ([^:\s]+:\d+):(.*))")))
    return {found[2], file_name(found[1])};
  if (std::regex_match(text, found, std::regex(R"(0x[0-9a-f]+ in (.*))"))) return {found[1], ""};
  if (std::regex_match(text, found, std::regex(R"((.*?)\+0x[0-9a-f]+ in (\S+:\d+))")))
    return {found[1], file_name(found[2])};
  if (std::regex_match(text, found, std::regex(R"((.*?)\+0x[0-9a-f]+)"))) return {found[1], ""};
  return {text, ""};
}

// From where on a block is about the host.
bool is_hosts(const std::string& line) {
  return line.starts_with("Saved host backtrace") || line.starts_with("Host Frame:");
}

SanitizerFinding finding_of(std::string kind, const std::vector<std::string>& lines) {
  SanitizerFinding finding;
  finding.kind = std::move(kind);
  for (const std::string& line : lines) {
    if (is_hosts(line)) break;
    if (line.starts_with("at ") && finding.kernel.empty()) {
      const Location at = location_of(line.substr(3));
      finding.kernel = at.kernel;
      finding.place = at.place;
    } else if (line.starts_with(kFrame)) {
      // The outermost frame is the kernel; the place stays that of the access.
      finding.kernel = location_of(line.substr(line.find_first_not_of(' ', kFrame.size()))).kernel;
    } else {
      finding.detail += (finding.detail.empty() ? "" : "; ") + line;
    }
  }
  return finding;
}

// "Race reported between Write access at f()+0x10 in kernel.cu:5", then "and Read access at …".
SanitizerFinding race_of(const std::string& heading, const std::vector<std::string>& lines) {
  const size_t at = heading.find(" at ");
  SanitizerFinding finding = finding_of(heading.substr(0, at), lines);
  if (at == std::string::npos) return finding;
  const Location place = location_of(heading.substr(at + 4));
  finding.kernel = place.kernel;
  finding.place = place.place;
  return finding;
}

bool has_location(const Block& block) {
  for (const std::string& line : block.lines) {
    if (is_hosts(line)) return false;
    if (line.starts_with("at ")) return true;
  }
  return false;
}

void read_block(const Block& block, SanitizerReport& report) {
  std::string heading = block.heading;
  std::smatch found;
  report.summarised |= heading.find("SUMMARY:") != std::string::npos;
  if (std::regex_search(heading, found, std::regex(R"(^ERROR SUMMARY: (\d+) error)")) ||
      std::regex_search(heading, found, std::regex(R"(^RACECHECK SUMMARY: .*\((\d+) errors?,)"))) {
    report.errors_counted =
        std::max<int64_t>(report.errors_counted, std::atoll(found[1].str().c_str()));
    return;
  }
  const bool warning = heading.starts_with(kWarning);
  const bool error = heading.starts_with(kError);
  if (warning || error) heading.erase(0, warning ? kWarning.size() : kError.size());
  const bool race = heading.starts_with("Race reported") || heading.starts_with("Potential ");
  if (race || has_location(block) || heading.starts_with("Host API")) {
    auto& list = warning ? report.warnings : report.findings;
    list.push_back(race ? race_of(heading, block.lines) : finding_of(heading, block.lines));
    return;
  }
  const bool cannot = error || heading.starts_with("Internal Sanitizer") ||
                      heading.starts_with("Target application");
  if (cannot && report.trouble.empty()) report.trouble = heading;
}

}  // namespace

SanitizerReport read_sanitizer_report(std::string_view log) {
  SanitizerReport report;
  for (const Block& block : blocks_of(log)) read_block(block, report);
  return report;
}

}  // namespace kl::cuda
