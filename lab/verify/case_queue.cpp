#include <lab/verify/case_queue.hpp>

#include <lab/verify/null_candidates.hpp>

namespace kl {

namespace {

// Beyond this the second draw of an audit would dominate; smaller groups audit the same spec.
constexpr int64_t kAuditElements = 1 << 18;

int64_t elements_of(const CaseData& data) {
  int64_t count = 0;
  for (const OperationData& operation : data.operations)
    for (const auto* tensors : {&operation.inputs, &operation.outputs})
      for (const TensorData& tensor : *tensors) count += tensor.size();
  return count;
}

Outcome audit(const OracleLibrary& oracle, const Target& target, const CaseGroup& group,
              const Case& item, const CaseData& data, uint64_t seed) {
  if (group.tile_rows > 0 && item.distribution == Distribution::normal && item.seed_index == 0)
    KL_CHECK(check_expansion(oracle, data));
  const bool thorough = item.distribution == Distribution::normal && item.seed_index == 0 &&
                        elements_of(data) <= kAuditElements;
  if (!thorough) return audit_null_candidates(target, group, item, data, nullptr);
  KL_TRY(const CaseData other,
         prepare_case(oracle, target, group, item, derive_seed(seed, "other")));
  KL_CHECK(audit_null_candidates(target, group, item, data, &other));
  return audit_sensitivity(oracle, target, group, item, data, other);
}

// Small shapes draw an answer of zeros, or the same sum twice, once in a while: such a draw cannot
// tell right from wrong and is drawn again. A case that never can is refused.
Result<PreparedCase> prepare(const OracleLibrary& oracle, const Target& target,
                             const CasePlan& plan, size_t group_index, size_t item_index,
                             uint64_t seed) {
  constexpr int kDraws = 8;
  const CaseGroup& group = plan.groups[group_index];
  const Case& item = group.cases[item_index];
  Outcome refused;
  for (int draw = 0; draw < kDraws; ++draw) {
    const uint64_t draw_seed = draw == 0 ? seed : derive_seed(seed, "draw " + std::to_string(draw));
    KL_TRY(CaseData data, prepare_case(oracle, target, group, item, draw_seed));
    if (item.strong) refused = audit(oracle, target, group, item, data, draw_seed);
    if (refused.ok()) return PreparedCase{group_index, item_index, std::move(data)};
  }
  return refused.error();
}

}  // namespace

Result<CaseData> prepare_case(const OracleLibrary& oracle, const Target& target,
                              const CaseGroup& group, const Case& item, uint64_t run_seed) {
  KL_TRY(CaseData data, draw_case(target, group, item, case_seed(run_seed, group, item)));
  KL_CHECK(evaluate_case(oracle, data));
  return data;
}

CaseQueue::CaseQueue(const OracleLibrary& oracle, const Target& target, const CasePlan& plan,
                     uint64_t seed, int ahead)
    : oracle_(oracle), target_(target), plan_(plan), seed_(seed) {
  for (int i = 0; i < ahead; ++i) start_one();
}

void CaseQueue::start_one() {
  while (group_ < plan_.groups.size() && item_ == plan_.groups[group_].cases.size()) {
    ++group_;
    item_ = 0;
  }
  if (group_ == plan_.groups.size()) return;
  pending_.push_back(std::async(std::launch::async, prepare, std::cref(oracle_), std::cref(target_),
                                std::cref(plan_), group_, item_, seed_));
  ++item_;
}

Result<PreparedCase> CaseQueue::next() {
  auto prepared = pending_.front().get();
  pending_.pop_front();
  start_one();
  return prepared;
}

}  // namespace kl
