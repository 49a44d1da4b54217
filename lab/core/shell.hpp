// Command lines as people paste them.
#pragma once

#include <string>

namespace kl {

// One word of a POSIX shell, quoted where it has to be.
std::string shell_word(const std::string& word);

}  // namespace kl
