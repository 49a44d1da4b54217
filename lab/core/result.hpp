// Result<T>: a value, or an Error that says what happened, with which value, and what to do.
#pragma once

#include <lab/core/status.hpp>

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace kl {

struct Error {
  Status status = Status::error;
  std::string what;    // what happened, with the value it happened to
  std::string remedy;  // what to do about it; empty only when nothing can be done
};

inline Error make_error(Status status, std::string what, std::string remedy = {}) {
  return Error{status, std::move(what), std::move(remedy)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Reading the wrong side is a programmer's error.
  T& value() & { return get(); }
  const T& value() const& { return const_cast<Result*>(this)->get(); }
  T&& value() && { return std::move(get()); }
  T& operator*() & { return get(); }
  const T& operator*() const& { return const_cast<Result*>(this)->get(); }
  T&& operator*() && { return std::move(get()); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &const_cast<Result*>(this)->get(); }
  const Error& error() const {
    if (ok()) throw std::logic_error("Result: error() of a value");
    return std::get<1>(state_);
  }

 private:
  T& get() {
    if (!ok()) throw std::logic_error("Result: value() of an error: " + std::get<1>(state_).what);
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), failed_(true) {}  // NOLINT: implicit
  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    if (!failed_) throw std::logic_error("Result: error() of a value");
    return error_;
  }

 private:
  Error error_;
  bool failed_ = false;
};

using Outcome = Result<void>;

}  // namespace kl

// KL_TRY(auto x, f()): x is f's value, or the enclosing function returns f's error.
#define KL_CONCAT_IMPL(a, b) a##b
#define KL_CONCAT(a, b) KL_CONCAT_IMPL(a, b)
#define KL_TRY(decl, expr) KL_TRY_IMPL(decl, expr, KL_CONCAT(kl_try_, __LINE__))
#define KL_TRY_IMPL(decl, expr, tmp) \
  auto tmp = (expr);                 \
  if (!tmp.ok()) return tmp.error(); \
  decl = std::move(tmp).value()
#define KL_CHECK(expr)                                                   \
  if (auto kl_check_result = (expr); !kl_check_result.ok()) return kl_check_result.error()
