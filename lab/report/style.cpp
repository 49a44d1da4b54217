#include <lab/report/style.hpp>

#include <fmt/format.h>

namespace kl {

std::string Style::wrap(std::string_view code, std::string_view text) const {
  return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}
std::string Style::bold(std::string_view text) const { return wrap("1", text); }
std::string Style::dim(std::string_view text) const { return wrap("2", text); }
std::string Style::good(std::string_view text) const { return wrap("1;32", text); }
std::string Style::bad(std::string_view text) const { return wrap("1;31", text); }
std::string Style::warn(std::string_view text) const { return wrap("1;33", text); }

std::string Style::status(Status status) const {
  const std::string_view name = to_string(status);
  switch (exit_code_of(status)) {
    case ExitCode::done: return good(name);
    case ExitCode::negative:
    case ExitCode::internal:
    case ExitCode::usage: return bad(name);
    case ExitCode::undecided:
    case ExitCode::unavailable: return warn(name);
  }
  return std::string(name);
}

}  // namespace kl
