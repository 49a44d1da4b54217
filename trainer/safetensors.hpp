// Weights on disk in the safetensors layout: 8 bytes of header length, a JSON header, raw float32.
#pragma once

#include <trainer/parameters.hpp>

#include <filesystem>
#include <span>

namespace kl::trainer {

// Atomic; tensors lie in the layout's order.
Outcome write_safetensors(const std::filesystem::path& path, const Layout& layout,
                          std::span<const float> weights);
// Every tensor of the layout must be there with its shape and dtype F32; errors name the tensor.
Outcome read_safetensors(const std::filesystem::path& path, const Layout& layout,
                         std::span<float> weights);

}  // namespace kl::trainer
