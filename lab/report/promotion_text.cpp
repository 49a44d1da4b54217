#include <lab/report/promotion_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/verdict.hpp>

#include <fmt/format.h>

#include <sstream>

namespace kl {
namespace {

std::string coloured_patch(const std::string& patch, const Style& style) {
  std::istringstream lines(patch);
  std::string line, text;
  while (std::getline(lines, line)) {
    const char first = line.empty() ? ' ' : line[0];
    text += (first == '+' ? style.good(line) : first == '-' ? style.bad(line) : line) + "\n";
  }
  return text;
}

std::string report_text(const PromotionRecord& record, const Style& style) {
  if (!record.provenance) return {};
  const Provenance& p = *record.provenance;
  std::string text = style.bold("report") + "\n";
  if (const auto gain = p.gains.find("speed_up"); gain != p.gains.end())
    text += fmt::format("  training step   {} (measured in the trainer, preset {})\n", percent_text(gain->second), p.preset);
  if (const auto ratio = p.gains.find("time_ratio"); ratio != p.gains.end())
    text += fmt::format("  seam time       {} per step\n", percent_text(ratio->second - 1));
  text += fmt::format("  price           +{} −{} lines\n", p.lines_added, p.lines_removed);
  text += fmt::format("  verified again  {} cases\n", record.verified_cases);
  text += fmt::format("  evidence        {} ledger lines\n", p.evidence.size());
  if (!record.report.empty()) text += fmt::format("  page            {}\n", record.report);
  if (p.forced) text += fmt::format("  {}          {}\n", style.warn("forced"), p.why);
  return text;
}

}  // namespace

std::string promotion_text(const PromotionRecord& record, const Style& style) {
  std::string text;
  if (record.status != Status::refused) text += coloured_patch(record.patch, style);
  text += report_text(record, style);
  std::string sentence = record.reason;
  if (record.status == Status::promoted) sentence = fmt::format("{} is the champion now", short_hash(record.identity.kernel));
  if (record.status == Status::patch_ready) sentence = fmt::format("--apply replaces {}", record.champion);
  return text + verdict_line(style, record.status, sentence, record.remedy);
}

}  // namespace kl
