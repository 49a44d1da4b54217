#include <lab/report/verdict.hpp>

#include <lab/report/figures.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {

std::string verdict_line(const Style& style, Status status, std::string_view sentence,
                         std::string_view remedy) {
  std::string text = fmt::format("{} {}", style.bold("verdict:"), style.status(status));
  if (!sentence.empty()) text += fmt::format(": {}", sentence);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text += "\n";
  if (!remedy.empty()) text += fmt::format("         {}\n", remedy);
  return text;
}

std::string compile_lines(const Style& style, const CompileReport& report) {
  if (report.compiler.empty()) return {};
  constexpr size_t kShown = 3;
  std::string text = fmt::format("  {}", style.dim(fmt::format("compiled in {} by {}",
                                                               duration_text(report.seconds), report.compiler)));
  text += "\n";
  for (size_t i = 0; i < std::min(kShown, report.notes.size()); ++i)
    text += fmt::format("  {}\n", style.dim("line " + report.notes[i]));
  if (report.notes.size() > kShown)
    text += fmt::format("  {}\n", style.dim(fmt::format("… {} more compiler notes in --json",
                                                        report.notes.size() - kShown)));
  return text;
}

}  // namespace kl
