// KL_OR_FAULT(auto x, f()): x is f's value, or the enclosing function returns f's Fault.
#pragma once

#include <lab/worker/worker.hpp>

#define KL_OR_FAULT_IMPL(decl, expr, tmp)                          \
  auto tmp = (expr);                                               \
  if (auto* tmp##_fault = std::get_if<kl::Fault>(&tmp)) return *tmp##_fault; \
  decl = std::move(std::get<0>(tmp))
#define KL_OR_FAULT(decl, expr) KL_OR_FAULT_IMPL(decl, expr, KL_CONCAT(kl_or_fault_, __LINE__))
