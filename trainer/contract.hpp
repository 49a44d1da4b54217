// From a target's spec and a shape to the form of a call, and the check that spec and trainer
// agree.
#pragma once

#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>
#include <trainer/prepared_call.hpp>
#include <trainer/seam.hpp>

namespace kl::trainer {

// unsupported_target when the spec's tensors are not those the step hands over, in that order.
Outcome check_contract(const Target& target, const SeamContract& contract);

// Lengths, dtypes and scalars of one operation at one shape.
Result<CallForm> form_of(const OperationSpec& operation, const SeamShape& shape);

// The target of a seam, held to its contract.
Result<Target> target_of(const Catalogue& catalogue, const SeamContract& contract);

}  // namespace kl::trainer
