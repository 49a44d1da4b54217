#include <lab/flow/evidence.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

const IdentityField kKernel{"kernel", &Identity::kernel, "another kernel source"};
const IdentityField kFlags{"flags", &Identity::flags,
                           "compiler, flags or device of the build changed"};
const IdentityField kHarness{"harness", &Identity::harness, "harness, spec or oracle changed"};
const IdentityField kCasePlan{"case_plan", &Identity::case_plan, "case plan changed"};
const IdentityField kBaseline{"baseline", &Identity::baseline, "champion changed"};
const IdentityField kSeams{"seams", &Identity::seams, "kernel of another seam changed"};
const IdentityField kTrainer{"trainer", &Identity::trainer, "trainer or its preset changed"};
const IdentityField kClass{"fingerprint_class", &Identity::fingerprint_class,
                           "another machine class"};

const std::vector<IdentityUse> kTable = {
    {"verify", {kKernel, kFlags, kHarness, kCasePlan, kBaseline, kClass}},
    {"bench", {kKernel, kFlags, kHarness, kCasePlan, kBaseline, kClass}},
    {"integration-ab", {kKernel, kFlags, kBaseline, kSeams, kTrainer, kClass}},
    {"integration-suite", {kKernel, kFlags, kBaseline, kSeams, kTrainer, kClass}},
    {"calibration", {kSeams, kTrainer, kClass}},
    {"capture", {kSeams, kTrainer, kClass}},
    {"trace-profile", {kSeams, kTrainer, kClass}},
    {"auto-review", {kSeams, kTrainer, kClass}},
    {"trace-review", {kSeams, kTrainer, kClass}},
    {"deep-profile", {kSeams, kTrainer, kClass}},
    {"promotion", {kKernel}},
    {"rejection", {kKernel}},
};

}  // namespace

std::span<const IdentityUse> identity_table() { return kTable; }

std::span<const IdentityField> identity_fields(std::string_view event_type) {
  const auto it = std::find_if(kTable.begin(), kTable.end(), [&](const IdentityUse& use) {
    return use.event_type == event_type;
  });
  if (it == kTable.end()) return {};
  return it->fields;
}

std::vector<std::string> stale_reasons(const LedgerEvent& event, const Identity& now) {
  if (!event.identified()) return {"recorded without identity (ledger version 1)"};
  std::vector<std::string> reasons;
  for (const auto& field : identity_fields(event.event_type)) {
    const std::string& then = event.identity.*field.member;
    const std::string& current = now.*field.member;
    if (current.empty() || then == current) continue;
    const bool promoted = field.member == &Identity::baseline && !then.empty() && event.identity.kernel == current;
    reasons.push_back(promoted       ? "it is against the champion that this kernel replaced"
                      : then.empty() ? fmt::format("{} not recorded", field.name)
                                     : std::string(field.changed));
  }
  return reasons;
}

bool is_current(const LedgerEvent& event, const Identity& now) {
  return stale_reasons(event, now).empty();
}

}  // namespace kl
