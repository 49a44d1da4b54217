// spec.toml of a target: what read_target reads, written.
#pragma once

#include <lab/target/target.hpp>

#include <string>

namespace kl {

// Comments say what each part is for. Fields at their defaults are left out.
std::string spec_text(const Target& target);

}  // namespace kl
