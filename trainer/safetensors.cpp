#include <trainer/safetensors.hpp>

#include <lab/core/files.hpp>

#include <cstring>

namespace kl::trainer {

Outcome write_safetensors(const fs::path& path, const Layout& layout, std::span<const float> weights) {
  Json header = {{"__metadata__", {{"format", "kernel-lab-train"}}}};
  for (const Parameter& p : layout.parameters())
    header[p.name] = {{"dtype", "F32"},
                      {"shape", p.shape},
                      {"data_offsets", {p.offset * 4, (p.offset + p.size) * 4}}};
  std::string text = dump_line(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(sizeof(length) + text.size() + weights.size_bytes(), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  std::memcpy(bytes.data() + sizeof(length), text.data(), text.size());
  std::memcpy(bytes.data() + sizeof(length) + text.size(), weights.data(), weights.size_bytes());
  return write_file_atomic(path, bytes);
}

Outcome read_safetensors(const fs::path& path, const Layout& layout, std::span<float> weights) {
  KL_TRY(const std::string bytes, read_file(path));
  const auto broken = [&path](const std::string& why) {
    return make_error(Status::error, path.string() + ": " + why,
                      "give a file that this preset wrote");
  };
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) return broken("is no safetensors file");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > bytes.size() - sizeof(length)) return broken("its header is cut short");
  KL_TRY(const Json header,
         parse_json(std::string_view(bytes).substr(sizeof(length), length), path.string()));
  const std::string_view data = std::string_view(bytes).substr(sizeof(length) + length);
  for (const Parameter& p : layout.parameters()) {
    const auto it = header.find(p.name);
    if (it == header.end()) return broken("has no tensor " + p.name);
    const Json dtype = it->value("dtype", Json()), shape = it->value("shape", Json());
    const Json offsets = it->value("data_offsets", Json());
    if (dtype != "F32" || shape != Json(p.shape))
      return broken(p.name + " is " + dump_line(dtype) + " " + dump_line(shape) + ", not F32 " +
                    dump_line(Json(p.shape)));
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        offsets[1] != offsets[0].get<uint64_t>() + static_cast<uint64_t>(p.size) * 4 ||
        offsets[1].get<uint64_t>() > data.size())
      return broken(p.name + " lies outside the file");
    std::memcpy(weights.data() + p.offset, data.data() + offsets[0].get<uint64_t>(),
                static_cast<size_t>(p.size) * 4);
  }
  return {};
}

}  // namespace kl::trainer
