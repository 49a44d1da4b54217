// A step's loss and gradient on disk, with all that they follow from, so that another program of the
// same model can be held against the trainer.
#pragma once

#include <lab/core/safetensors.hpp>
#include <trainer/session.hpp>

namespace kl::trainer {

// Differentiates the session's next step and writes one safetensors file: the weights by name, the
// gradients as gradient.NAME, tokens and targets [accumulation*B, T] (I32), loss [1] (F64), and the
// settings in the metadata (config). The file serves as a file of weights, too.
Result<StepResult> write_derivative(Session& session, const std::filesystem::path& path);

}  // namespace kl::trainer
