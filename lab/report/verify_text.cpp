#include <lab/report/verify_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/verdict.hpp>
#include <lab/verify/sanitize.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kl {

std::string verify_sentence(const VerifyRecord& record) {
  if (record.status == Status::ok)
    return fmt::format("{} cases, {} elements, worst error {:.2f} of its bound", count_text(record.cases_run),
                       count_text(record.elements_checked), record.worst_bound_fraction);
  if (record.failing) {
    const FailingElement& f = *record.failing;
    return fmt::format("{} of {} is wrong at [{}] in case {}", f.output, f.operation, fmt::join(f.index, ", "),
                       f.case_name);
  }
  if (!record.proof.empty()) return fmt::format("{}: {}", record.rule, record.proof);
  return record.reason;
}

namespace {

// Shapes that the kernel's `accepts` refused, and why.
std::string declined_lines(const Json& details) {
  constexpr size_t kShown = 3;
  const auto found = details.find("declined");
  if (found == details.end() || !found->is_array() || found->empty()) return {};
  std::string text = fmt::format("  declined {} shape{}, left to the champion\n", found->size(),
                                 found->size() == 1 ? "" : "s");
  for (size_t i = 0; i < std::min(kShown, found->size()); ++i)
    text += fmt::format("          {}: {}\n", (*found)[i].value("case", ""), (*found)[i].value("why", ""));
  if (found->size() > kShown) text += fmt::format("          … {} more in --json\n", found->size() - kShown);
  return text;
}

// What the sanitizers came to; a rejection is told by the verdict.
std::string sanitize_line(const Json& details) {
  const auto found = details.find("sanitize");
  if (found == details.end()) return {};
  const auto report = from_json<SanitizeReport>(*found);
  if (!report.ok() || report->status == Status::rejected) return {};
  if (report->status == Status::ok)
    return fmt::format("  under   {}: nothing found in {} cases\n", fmt::join(report->tools, ", "),
                       count_text(report->cases));
  return fmt::format("  under   no sanitizer ({}): {}\n          {}\n", to_string(report->status), report->proof,
                     report->remedy);
}

}  // namespace

std::string verify_text(const VerifyRecord& record, const Style& style) {
  std::string text = fmt::format("{} {} on {} ({}, preset {}, seed {})\n", style.bold("verify"), record.target,
                                 record.engine, record.mode, or_none(record.preset),
                                 record.seed);
  text += compile_lines(style, record.compile);
  if (record.cases_planned > 0 && record.failing)
    text += fmt::format("  cases   {} of {} passed before the one that failed, {} elements compared with the oracle\n", count_text(record.cases_run),
                        count_text(record.cases_planned), count_text(record.elements_checked));
  else if (record.cases_planned > 0)
    text += fmt::format("  cases   {} of {} run, {} elements compared with the oracle\n", count_text(record.cases_run),
                        count_text(record.cases_planned), count_text(record.elements_checked));
  text += declined_lines(record.details);
  if (record.elements_checked > 0)
    text += fmt::format("  error   at most {:.3f} of its bound{}\n", record.worst_bound_fraction,
                        record.status == Status::ok && record.bitwise_repeatable ? "; same bits on every call" : "");
  text += sanitize_line(record.details);
  if (record.failing) {
    const FailingElement& f = *record.failing;
    text += fmt::format("  wrong   {}[{}] of {} in case {}\n", f.output, fmt::join(f.index, ", "), f.operation,
                        f.case_name);
    text += fmt::format("          got {}, expected {:.9g}, allowed ±{:.3g}\n", f.got_text, f.expected, f.bound);
  }
  return text + verdict_line(style, record.status, verify_sentence(record), record.remedy);
}

}  // namespace kl
