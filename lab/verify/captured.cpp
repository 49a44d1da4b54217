#include <lab/verify/captured.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/json.hpp>
#include <lab/core/safetensors.hpp>
#include <lab/target/axes.hpp>
#include <lab/verify/case_plan.hpp>
#include <lab/verify/tensor_data.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kl {
namespace {

Error wrong(const fs::path& file, const std::string& what) {
  return make_error(Status::usage, fmt::format("{}: {}", file.string(), what),
                    "capture --tensors writes such files; give those of this target and this version of its spec");
}

std::string stored_name(DLDataType type) {
  const char* kind = type.code == kDLFloat ? "F" : type.code == kDLBfloat ? "BF" : "I";
  return fmt::format("{}{}", kind, type.bits);
}

// The spec's tensors by the names they have in a file.
std::map<std::string, const TensorSpec*> named_tensors(const Target& target) {
  std::map<std::string, const TensorSpec*> named;
  for (const OperationSpec& operation : target.operations) {
    for (const TensorSpec& input : operation.inputs) named.try_emplace(input.name, &input);
    for (const TensorSpec& output : operation.outputs)
      if (output.mode != OutputMode::write) named[before_name(operation.name, output.name)] = &output;
  }
  return named;
}

Outcome check_values(const fs::path& file, const Target& target, const TensorSpec& spec, const CaseGroup& group,
                     const TensorData& data, const std::string& name) {
  const std::vector<double> values = data.values();
  if (spec.kind == InputKind::index) {
    KL_TRY(const int64_t bound, axis_length(spec.index_bound, group.axes));
    for (const double value : values)
      if ((value < 0 || value >= static_cast<double>(bound)) && !(spec.ignore && value == static_cast<double>(*spec.ignore)))
        return wrong(file, fmt::format("{} holds the index {}, {} has {} elements", name, value, spec.index_bound, bound));
  } else if (!target.non_finite) {
    for (const double value : values)
      if (!std::isfinite(value)) return wrong(file, fmt::format("{} holds {}, and {} takes finite numbers alone", name, value, target.key));
  }
  return {};
}

Result<CapturedCall> captured_of(const fs::path& path, SafetensorsFile file, const Target& target) {
  CapturedCall call;
  const auto shape = parse_json(file.metadata["shape"], "shape");
  if (!shape.ok()) return wrong(path, shape.error().what);
  auto parsed = from_json<SeamShape>(*shape);
  if (!parsed.ok()) return wrong(path, "its shape cannot be read: " + parsed.error().what);
  call.shape = *std::move(parsed);
  CaseGroup group;
  group.axes = call.shape.axes;
  group.dtype = call.shape.dtype;
  group.absent = call.shape.absent;
  auto tensors = std::make_shared<CapturedTensors>();
  KL_TRY(tensors->sha256, sha256_file(path));
  const auto named = named_tensors(target);
  for (StoredTensor& stored : file.tensors) {
    const auto known = named.find(stored.name);
    if (known == named.end()) return wrong(path, fmt::format("{} is no tensor of {}", stored.name, target.key));
    TensorData data;
    data.name = stored.name;
    const auto dtype = dtype_of(*known->second, group);
    const auto lengths = shape_of(*known->second, group);
    if (!dtype.ok() || !lengths.ok()) return wrong(path, (dtype.ok() ? lengths.error() : dtype.error()).what);
    data.dtype = *dtype;
    data.shape = *lengths;
    if (stored.shape != data.shape || stored.dtype != stored_name(data.dtype))
      return wrong(path, fmt::format("{} is {} [{}], the spec says {} [{}]", stored.name, stored.dtype, fmt::join(stored.shape, ", "),
                                     stored_name(data.dtype), fmt::join(data.shape, ", ")));
    if (stored.bytes.size() != static_cast<size_t>(data.size()) * element_bytes(data.dtype))
      return wrong(path, fmt::format("{} has {} bytes, not those of its shape", stored.name, stored.bytes.size()));
    data.bytes = std::move(stored.bytes);
    KL_CHECK(check_values(path, target, *known->second, group, data, stored.name));
    tensors->bytes[stored.name] = std::move(data.bytes);
  }
  if (tensors->bytes.empty()) return wrong(path, "holds no tensor");
  call.tensors = std::move(tensors);
  return call;
}

}  // namespace

std::string before_name(const std::string& operation, const std::string& output) {
  return fmt::format("before/{}/{}", operation, output);
}

Result<std::vector<CapturedCall>> read_captured(const fs::path& path, const Target& target) {
  std::error_code code;
  std::vector<fs::path> files;
  const bool folder = fs::is_directory(path, code);
  if (folder) {
    for (const auto& entry : fs::directory_iterator(path, code))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else {
    files = {path};
  }
  std::vector<CapturedCall> calls;
  std::set<std::string> others;
  for (const fs::path& file : files) {
    KL_TRY(const Metadata metadata, read_metadata(file));
    const auto of = metadata.find("target");
    if (of == metadata.end() || !metadata.contains("shape")) {
      if (folder) continue;
      return wrong(file, "names no target and no shape");
    }
    if (of->second != target.key) {
      others.insert(of->second);
      continue;
    }
    KL_TRY(SafetensorsFile content, read_safetensors_file(file));
    KL_TRY(CapturedCall call, captured_of(file, std::move(content), target));
    calls.push_back(std::move(call));
  }
  if (calls.empty())
    return make_error(Status::usage,
                      others.empty() ? fmt::format("{} holds no captured tensors", path.string())
                                     : fmt::format("{} holds tensors of {}, none of {}", path.string(), fmt::join(others, ", "), target.key),
                      "kernel-lab capture --tensors --output PREFIX writes PREFIX.tensors/ at a preset that runs the target's seam");
  return calls;
}

}  // namespace kl
