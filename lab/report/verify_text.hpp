#pragma once

#include <lab/report/style.hpp>
#include <lab/verify/verify.hpp>

#include <string>

namespace kl {

// What was checked and the verdict; for a mismatch the element, both values and the bound.
std::string verify_text(const VerifyRecord& record, const Style& style);
// The verdict in one sentence, without its status.
std::string verify_sentence(const VerifyRecord& record);

}  // namespace kl
