#include <lab/report/deep_profile_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verdict.hpp>

#include <fmt/format.h>

namespace kl {

std::string deep_profile_text(const DeepProfileRecord& record, const Style& style) {
  std::string text = fmt::format("{} {} at the shapes of preset {}, by {}, {} calls\n", style.bold("deep-profile"), record.target,
                                 or_none(record.preset), or_none(record.method), count_text(record.calls));
  Table table({"metric", ">", "", "", ""});
  for (const auto& metric : record.metrics)
    table.row({metric.name, metric.value ? fmt::format("{:.4g}", *metric.value) : "–", metric.unit, metric.state, metric.reason});
  if (!table.empty()) text += table.text(style);
  const std::string sentence = record.diagnosis.empty()
                                   ? record.reason
                                   : fmt::format("{} (confidence {:.2f}): {}", record.diagnosis, record.confidence, record.explanation);
  return text + verdict_line(style, record.status, sentence, record.remedy);
}

}  // namespace kl
