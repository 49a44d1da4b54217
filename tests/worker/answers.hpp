// What a worker answered, as tests want to see it.
#pragma once

#include <lab/worker/worker.hpp>

#include <gtest/gtest.h>

#include <string>

namespace kl {

inline std::string describe(const Fault& fault) {
  return std::string(to_string(fault.status)) + " (" + fault.rule + "): " + fault.proof;
}

// The rule that the answer names, or none.
template <class T>
std::string rule_of(const OrFault<T>& result) {
  const auto* fault = std::get_if<Fault>(&result);
  return fault == nullptr ? "" : fault->rule;
}

template <class T>
T value_of(OrFault<T> result) {
  if (const auto* fault = std::get_if<Fault>(&result)) {
    ADD_FAILURE() << describe(*fault);
    if constexpr (std::is_default_constructible_v<T>) return T{};
  }
  return std::get<0>(std::move(result));
}

}  // namespace kl
