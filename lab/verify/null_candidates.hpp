// The case on trial: answers that need no kernel must fail it, and every input must matter.
#pragma once

#include <lab/verify/judge.hpp>

namespace kl {

// n of the bound of one output, from its spec.
Result<int64_t> term_count(const TensorSpec& output, const CaseGroup& group);

// unsupported_target, naming case, output and null candidate, when zeros (for accumulate and inout:
// an unchanged base), a copy of an input of the same shape, the answer of `other` (another draw of
// the same group, evaluated; may be null) or the mean of the output would pass `data`.
Outcome audit_null_candidates(const Target& target, const CaseGroup& group, const Case& item,
                              const CaseData& data, const CaseData* other);

// unsupported_target when replacing an input by `other`'s leaves every output of the operation
// within its bound.
Outcome audit_sensitivity(const OracleLibrary& oracle, const Target& target, const CaseGroup& group,
                          const Case& item, const CaseData& data, const CaseData& other);

}  // namespace kl
