#include <lab/report/verify_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/verdict.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

std::string verify_text(const VerifyRecord& record, const Style& style) {
  std::string text = fmt::format("{} {} on {} ({}, preset {}, seed {})\n", style.bold("verify"), record.target,
                                 record.engine, record.mode, record.preset.empty() ? "none" : record.preset,
                                 record.seed);
  text += compile_lines(style, record.compile);
  if (record.cases_planned > 0)
    text += fmt::format("  cases   {} of {} run, {} elements compared with the oracle\n",
                        count_text(record.cases_run), count_text(record.cases_planned),
                        count_text(record.elements_checked));
  if (record.elements_checked > 0)
    text += fmt::format("  error   at most {:.3f} of its bound{}\n", record.worst_bound_fraction,
                        record.status == Status::ok && record.bitwise_repeatable ? "; same bits on every call" : "");
  if (record.failing) {
    const FailingElement& f = *record.failing;
    text += fmt::format("  wrong   {}[{}] of {} in case {}\n", f.output, fmt::join(f.index, ", "), f.operation,
                        f.case_name);
    text += fmt::format("          got {}, expected {:.9g}, allowed ±{:.3g}\n", f.got_text, f.expected, f.bound);
  }
  return text + verdict_line(style, record.status, verify_sentence(record), record.remedy);
}

}  // namespace kl
