// The fingerprint class of an engine on this machine: the one definition every record uses.
#pragma once

#include <lab/core/fingerprint.hpp>
#include <lab/engine/engine.hpp>

namespace kl {

// What cannot be read stays empty.
FingerprintClass fingerprint_class(const Engine& engine);

}  // namespace kl
