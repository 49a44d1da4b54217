// Completion scripts for shells: verbs, flags, the choices of a flag, folders, files and targets.
#pragma once

#include "flag_table.hpp"

namespace kl::app {

std::string bash_completion(const FlagTable& table);
std::string zsh_completion(const FlagTable& table);
std::string fish_completion(const FlagTable& table);

}  // namespace kl::app
