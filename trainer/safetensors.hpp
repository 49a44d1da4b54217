// Tensors on disk in the safetensors layout: 8 bytes of header length, a JSON header, raw float32.
#pragma once

#include <trainer/parameters.hpp>

#include <filesystem>
#include <map>
#include <span>

namespace kl::trainer {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> values;
};
// The parameters of a layout, as tensors.
std::vector<NamedTensor> named_tensors(const Layout& layout, std::span<float> weights);

using Metadata = std::map<std::string, std::string>;

// Atomic: a full disk leaves the file that was there.
Outcome write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                          const Metadata& metadata = {});
// Fills `tensors`: each must be there with its shape and dtype F32; errors name the tensor. Returns
// the metadata.
Result<Metadata> read_safetensors(const std::filesystem::path& path,
                                  std::span<const NamedTensor> tensors);
// The metadata alone.
Result<Metadata> read_metadata(const std::filesystem::path& path);

}  // namespace kl::trainer
