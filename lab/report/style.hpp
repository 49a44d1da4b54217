// Text decoration that can be switched off: the same words with and without a terminal.
#pragma once

#include <lab/core/status.hpp>

#include <string>
#include <string_view>

namespace kl {

struct Style {
  bool color = false;

  std::string bold(std::string_view text) const;
  std::string dim(std::string_view text) const;
  std::string good(std::string_view text) const;  // green
  std::string bad(std::string_view text) const;   // red
  std::string warn(std::string_view text) const;  // yellow
  // A status in the colour of what it means for the kernel.
  std::string status(Status status) const;

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
};

}  // namespace kl
