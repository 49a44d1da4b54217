// Tensors on disk in the safetensors layout: 8 bytes of header length, a JSON header, raw values.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kl {

// How the layout spells the type of a value.
template <class T>
constexpr std::string_view safetensors_dtype() {
  if constexpr (std::is_same_v<T, float>) return "F32";
  else if constexpr (std::is_same_v<T, double>) return "F64";
  else if constexpr (std::is_same_v<T, int32_t>) return "I32";
  else static_assert(sizeof(T) == 0, "no tensor here has this type");
}

// A view of somebody's values: a span or a vector of float, double or int32.
struct NamedTensor {
  template <class Values>
  NamedTensor(std::string name_, std::vector<int64_t> shape_, Values&& values)
      : name(std::move(name_)), shape(std::move(shape_)),
        dtype(safetensors_dtype<typename std::remove_cvref_t<Values>::value_type>()),
        bytes(std::as_writable_bytes(std::span(values))) {}
  NamedTensor(std::string name_, std::vector<int64_t> shape_, std::string_view dtype_, std::span<std::byte> bytes_)
      : name(std::move(name_)), shape(std::move(shape_)), dtype(dtype_), bytes(bytes_) {}
  std::string name;
  std::vector<int64_t> shape;
  std::string_view dtype;
  std::span<std::byte> bytes;
};
using Metadata = std::map<std::string, std::string>;

// Atomic: a full disk leaves the file that was there.
Outcome write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                          const Metadata& metadata = {});
// Fills `tensors`: each must be there with its shape and dtype; errors name the tensor. Returns
// the metadata.
Result<Metadata> read_safetensors(const std::filesystem::path& path,
                                  std::span<const NamedTensor> tensors);
// Whatever a file holds: bytes as they are there, the length of `bytes` not compared with shape and dtype.
struct StoredTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
struct SafetensorsFile {
  Metadata metadata;
  std::vector<StoredTensor> tensors;  // by name
};
Result<SafetensorsFile> read_safetensors_file(const std::filesystem::path& path);
// The metadata alone.
Result<Metadata> read_metadata(const std::filesystem::path& path);

}  // namespace kl
