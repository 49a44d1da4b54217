#include <lab/core/safetensors.hpp>

#include <lab/core/files.hpp>
#include <lab/core/json.hpp>

#include <cstring>
#include <fstream>

namespace kl {
namespace {

Error broken(const fs::path& path, const std::string& why) {
  return make_error(Status::usage, path.string() + ": " + why,
                    "give a whole file of tensors in the safetensors layout");
}

struct File {
  Json header;
  std::streamoff data = 0;  // where the tensors begin
  uint64_t data_bytes = 0;
};

Result<File> open_file(const fs::path& path, std::ifstream& stream) {
  std::error_code code;
  const uint64_t size = fs::file_size(path, code);
  stream.open(path, std::ios::binary);
  if (code || !stream)
    return make_error(Status::usage, "cannot read " + path.string(), "give an existing file");
  uint64_t length = 0;
  if (size < sizeof(length) || !stream.read(reinterpret_cast<char*>(&length), sizeof(length)))
    return broken(path, "is no safetensors file");
  if (length > size - sizeof(length)) return broken(path, "its header is cut short");
  std::string text(length, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(length)))
    return broken(path, "cannot be read");
  File file;
  KL_TRY(file.header, parse_json(text, path.string()));
  if (!file.header.is_object()) return broken(path, "its header is no object");
  file.data = static_cast<std::streamoff>(sizeof(length) + length);
  file.data_bytes = size - sizeof(length) - length;
  return file;
}

Metadata metadata_of(const Json& header) {
  Metadata metadata;
  if (const auto it = header.find("__metadata__"); it != header.end() && it->is_object())
    for (const auto& [key, value] : it->items())
      if (value.is_string()) metadata[key] = value.get<std::string>();
  return metadata;
}

}  // namespace

Outcome write_safetensors(const fs::path& path, std::span<const NamedTensor> tensors,
                          const Metadata& metadata) {
  Json header = {{"__metadata__", metadata}};
  header["__metadata__"]["format"] = "kernel-lab";
  size_t data = 0;
  for (const NamedTensor& t : tensors) {
    header[t.name] = {{"dtype", t.dtype},
                      {"shape", t.shape},
                      {"data_offsets", {data, data + t.bytes.size()}}};
    data += t.bytes.size();
  }
  std::string text = dump_line(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string bytes;
  bytes.reserve(sizeof(length) + text.size() + data);
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(text);
  for (const NamedTensor& t : tensors)
    bytes.append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  return write_file_atomic(path, bytes);
}

Result<Metadata> read_safetensors(const fs::path& path, std::span<const NamedTensor> tensors) {
  std::ifstream stream;
  KL_TRY(const File file, open_file(path, stream));
  for (const NamedTensor& t : tensors) {
    const auto it = file.header.find(t.name);
    if (it == file.header.end()) return broken(path, "has no tensor " + t.name);
    const Json dtype = it->value("dtype", Json()), shape = it->value("shape", Json());
    const Json offsets = it->value("data_offsets", Json());
    if (dtype != t.dtype || shape != Json(t.shape))
      return broken(path, t.name + " is " + dump_line(dtype) + " " + dump_line(shape) +
                              ", not " + std::string(t.dtype) + " " + dump_line(Json(t.shape)));
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        offsets[1] != offsets[0].get<uint64_t>() + t.bytes.size() ||
        offsets[1].get<uint64_t>() > file.data_bytes)
      return broken(path, t.name + " lies outside the file");
    stream.seekg(file.data + static_cast<std::streamoff>(offsets[0].get<uint64_t>()));
    if (!stream.read(reinterpret_cast<char*>(t.bytes.data()),
                     static_cast<std::streamsize>(t.bytes.size())))
      return broken(path, t.name + " cannot be read");
  }
  return metadata_of(file.header);
}

Result<SafetensorsFile> read_safetensors_file(const fs::path& path) {
  std::ifstream stream;
  KL_TRY(const File file, open_file(path, stream));
  SafetensorsFile read;
  read.metadata = metadata_of(file.header);
  for (const auto& [name, entry] : file.header.items()) {
    if (name == "__metadata__") continue;
    const auto wrong = [&, tensor = std::string(name)](const char* what) { return broken(path, tensor + " " + what); };
    if (!entry.is_object()) return wrong("is no tensor");
    const Json dtype = entry.value("dtype", Json()), shape = entry.value("shape", Json());
    const Json offsets = entry.value("data_offsets", Json());
    if (!dtype.is_string() || !shape.is_array()) return wrong("has no dtype or no shape");
    StoredTensor tensor{name, dtype.get<std::string>(), {}, {}};
    for (const Json& length : shape) {
      if (!length.is_number_unsigned() || length.get<uint64_t>() > (uint64_t{1} << 40)) return wrong("has a length that is no number of elements");
      tensor.shape.push_back(length.get<int64_t>());
    }
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
      return wrong("has no place in the file");
    const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > file.data_bytes) return wrong("lies outside the file");
    tensor.bytes.resize(end - begin);
    stream.seekg(file.data + static_cast<std::streamoff>(begin));
    if (!stream.read(reinterpret_cast<char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size())))
      return wrong("cannot be read");
    read.tensors.push_back(std::move(tensor));
  }
  return read;
}

Result<Metadata> read_metadata(const fs::path& path) {
  std::ifstream stream;
  KL_TRY(const File file, open_file(path, stream));
  return metadata_of(file.header);
}

}  // namespace kl
