// The folder of an operation of the user's own, made from a target or from a signature: complete,
// verifying as it is, and saying what to edit.
#pragma once

#include <lab/core/record.hpp>
#include <lab/target/target.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace kl {

struct NewTargetRequest {
  std::string key;
  std::string like;              // key or alias of a target of the catalogue; or
  std::string signature;         // see lab/flow/signature.hpp
  std::filesystem::path folder;  // of targets; the new one is folder / key
};

struct NewTargetRecord : RecordHeader {
  static constexpr std::string_view kSchema = "new-target";
  std::string folder;
  std::vector<std::string> files;
  std::string like;
  std::string signature;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("folder", self.folder, "the new target's folder");
    v("files", self.files, "what is in it");
    v("like", self.like, "target it was copied from, or empty");
    v("signature", self.signature, "signature it was made from, or empty");
  }
};

// Nothing is left of a folder that could not be written whole. A copy has neither the aliases nor the
// seam of the target it comes from, and starts from its plain kernel. Errors: usage (key, folder,
// signature), unsupported_target (unknown `like`), no_permission (folder cannot be written).
Result<NewTargetRecord> make_target(const NewTargetRequest& request, const Catalogue& catalogue);

// `text` with the word `from` replaced by `to` inside string literals.
std::string with_renamed_literals(std::string_view text, std::string_view from, std::string_view to);

}  // namespace kl
