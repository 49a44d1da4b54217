#include <trainer/seam_set.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/near.hpp>
#include <trainer/contract.hpp>
#include <trainer/range_log.hpp>
#include <trainer/tensor_log.hpp>

#include <algorithm>

namespace kl::trainer {
namespace {

// The targets that the trainer's seams are looked up in.
Catalogue installed_targets() { return Catalogue::search(target_search_path({})); }

}  // namespace

Result<SeamFiles> champion_files(const Config& config, const Engine& engine,
                                 const Builder& builder) {
  SeamFiles files;
  const Catalogue catalogue = installed_targets();
  for (const auto& seam : describe_seams(config)) {
    KL_TRY(const Target target, catalogue.find(seam.target));
    const auto source = target.champion(engine);
    if (!source)
      return make_error(Status::unsupported_target,
                        "no champion of " + seam.target + " for this engine",
                        "install Kernel Lab whole, or run where ./targets holds it");
    KL_TRY(const BuiltLibrary built, builder.build({*source, "", {}}));
    files[seam.seam] = {built.path.string(), built.source_hash, built.library_hash};
  }
  return files;
}

Result<SeamFiles> checked_files(const Config& config, const SeamFiles& wanted) {
  std::vector<std::string> names;
  std::string list;
  for (const auto& seam : describe_seams(config)) {
    names.push_back(seam.seam);
    list += (list.empty() ? "" : ", ") + seam.seam;
  }
  SeamFiles files = wanted;
  for (const auto& [name, unused] : files)
    if (std::find(names.begin(), names.end(), name) == names.end())
      return make_error(Status::usage,
                        "the plan names a seam '" + name + "' that this preset has not",
                        suggestion(name, names));
  for (const auto& name : names) {
    const auto it = files.find(name);
    if (it == files.end())
      return make_error(Status::usage, "the plan gives no library for the seam " + name,
                        "give one for each of " + list);
    KL_TRY(const std::string hash, sha256_file(it->second.path));
    if (!it->second.library_hash.empty() && it->second.library_hash != hash)
      return make_error(
          Status::load_failed,
          it->second.path + " has hash " + hash + ", the plan says " + it->second.library_hash,
          "build it again");
    it->second.library_hash = hash;
  }
  return files;
}

Result<std::unique_ptr<SeamSet>> SeamSet::open(const Config& config, const SeamFiles& wanted,
                                               int threads) {
  KL_TRY(SeamFiles files, checked_files(config, wanted));
  std::unique_ptr<SeamSet> set(new SeamSet);
  const Catalogue catalogue = installed_targets();
  for (const SeamUse& use : seam_table(config)) {
    const SeamContract& contract = contract_of(use.seam);
    KL_TRY(const Target target, target_of(catalogue, contract));
    std::vector<SeamForm> forms;
    for (const SeamCalls& calls : use.calls) {
      SeamForm form;
      for (const OperationSpec& operation : target.operations) {
        KL_TRY(CallForm call, form_of(operation, calls.shape));
        form.operations.push_back(std::move(call));
      }
      form.sites = calls.sites;
      forms.push_back(std::move(form));
    }
    const std::string key(contract.key);
    KL_TRY(LibrarySeam seam,
           LibrarySeam::open(files[key].path, key, target.services, std::move(forms), threads));
    set->seams_.emplace(use.seam, std::move(seam));
  }
  set->files_ = std::move(files);
  return set;
}

void SeamSet::run(Seam seam, int operation, int site, std::initializer_list<const void*> inputs,
                  std::initializer_list<void*> outputs) {
  if (TensorLog* log = TensorLog::current()) log->add(seam, operation, site, inputs, outputs);
  const RangeScope range(seam, operation);
  seams_.at(seam).run(operation, site, inputs, outputs);
}

Outcome SeamSet::perturb(const std::string& name, uint64_t seed) {
  std::vector<std::string> names;
  for (auto& [seam, library] : seams_) {
    names.emplace_back(contract_of(seam).key);
    if (names.back() != name) continue;
    library.perturb(seed);
    return {};
  }
  return make_error(Status::usage, "no seam named '" + name + "'", suggestion(name, names));
}

std::map<std::string, SeamCounts> SeamSet::counts() const {
  std::map<std::string, SeamCounts> counts;
  for (const auto& [seam, library] : seams_)
    counts[std::string(contract_of(seam).key)] = library.counts();
  return counts;
}

Outcome SeamSet::fault() const {
  for (const auto& [seam, library] : seams_) KL_CHECK(library.fault());
  return {};
}

}  // namespace kl::trainer
