// Tensors that a trainer called a seam with (docs/trainer-protocol.md, `tensors`): cases of real data.
#pragma once

#include <lab/core/result.hpp>
#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kl {

struct CapturedTensors {
  std::string sha256;                                   // of the file
  std::map<std::string, std::vector<std::byte>> bytes;  // packed; inputs by name, and before/OPERATION/NAME
};

// One call of every operation at one shape.
struct CapturedCall {
  SeamShape shape;
  std::shared_ptr<const CapturedTensors> tensors;
};

// `path`: one file, or a folder of which the files of this target are taken. Every tensor must be one of the
// spec's, of its shape and dtype at the file's shape; indices inside their axis, and numbers finite unless the target
// takes others. Usage errors name file, tensor and what is wrong; a folder without a file of the target is one.
Result<std::vector<CapturedCall>> read_captured(const std::filesystem::path& path, const Target& target);

// The name of what an output held before the call: before/OPERATION/NAME.
std::string before_name(const std::string& operation, const std::string& output);

}  // namespace kl
