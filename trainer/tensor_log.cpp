#include <trainer/tensor_log.hpp>

#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/safetensors.hpp>
#include <trainer/contract.hpp>

#include <algorithm>
#include <cstring>

namespace kl::trainer {
namespace {

std::string dtype_of(const DLDataType& type) {
  const std::string bits = std::to_string(type.bits);
  return type.code == kDLFloat ? "F" + bits : type.code == kDLBfloat ? "BF" + bits : "I" + bits;
}

// Elements of a tensor with any strides, one after the other.
std::vector<std::byte> packed(const TensorForm& form, const void* data) {
  int64_t count = 1;
  for (const int64_t length : form.shape) count *= length;
  const auto size = static_cast<size_t>(form.type.bits / 8);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size);
  const auto* from = static_cast<const std::byte*>(data);
  if (form.strides.empty()) {
    std::memcpy(bytes.data(), from, bytes.size());
    return bytes;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    for (size_t axis = form.shape.size(); axis-- > 0; rest /= form.shape[axis]) at += rest % form.shape[axis] * form.strides[axis];
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size, from + static_cast<size_t>(at) * size, size);
  }
  return bytes;
}

}  // namespace

Result<TensorLog> TensorLog::create(const Config& config) {
  TensorLog log;
  const Catalogue catalogue = Catalogue::search(target_search_path({}));
  for (const SeamUse& use : seam_table(config)) {
    Entry& entry = log.entries_[use.seam];
    KL_TRY(entry.target, target_of(catalogue, contract_of(use.seam)));
    for (const SeamCalls& calls : use.calls) {
      Place& place = entry.places.emplace_back();
      place.calls = calls;
      place.seen.resize(entry.target.operations.size());
      for (const OperationSpec& operation : entry.target.operations) {
        KL_TRY(CallForm form, form_of(operation, calls.shape));
        place.forms.push_back(std::move(form));
      }
    }
  }
  return log;
}

void TensorLog::keep(Place& place, const std::string& name, const TensorForm& form, const void* data) {
  if (data == nullptr || form.shape.empty() || place.kept.contains(name)) return;
  place.kept.emplace(name, Kept{form.shape, dtype_of(form.type), packed(form, data)});
}

void TensorLog::add(Seam seam, int operation, int site, std::initializer_list<const void*> inputs,
                    std::initializer_list<void*> outputs) {
  const auto entry = entries_.find(seam);
  if (entry == entries_.end()) return;
  const auto which = static_cast<size_t>(operation);
  for (Place& place : entry->second.places) {
    const std::vector<int>& sites = place.calls.sites;
    if (std::find(sites.begin(), sites.end(), site) == sites.end() || place.seen[which]) continue;
    if (place.site >= 0 && place.site != site) continue;
    place.site = site;
    place.seen[which] = true;
    const OperationSpec& spec = entry->second.target.operations[which];
    const CallForm& form = place.forms[which];
    for (size_t i = 0; i < inputs.size(); ++i) keep(place, spec.inputs[i].name, form.inputs[i], inputs.begin()[i]);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (spec.outputs[i].mode != OutputMode::write)
        keep(place, "before/" + spec.name + "/" + spec.outputs[i].name, form.outputs[i], outputs.begin()[i]);
  }
}

Result<std::vector<fs::path>> TensorLog::write(const fs::path& folder) {
  KL_CHECK(make_directories(folder));
  std::vector<fs::path> files;
  for (auto& [seam, entry] : entries_) {
    const std::string key(contract_of(seam).key);
    for (size_t k = 0; k < entry.places.size(); ++k) {
      Place& place = entry.places[k];
      if (place.kept.empty()) continue;
      std::vector<NamedTensor> tensors;
      for (auto& [name, kept] : place.kept) tensors.push_back({name, kept.shape, kept.dtype, kept.bytes});
      const Metadata metadata = {{"target", entry.target.key}, {"seam", key}, {"shape", dump_line(to_json(place.calls.shape))}};
      files.push_back(folder / (key + "." + std::to_string(k) + ".safetensors"));
      KL_CHECK(write_safetensors(files.back(), tensors, metadata));
    }
  }
  return files;
}

}  // namespace kl::trainer
