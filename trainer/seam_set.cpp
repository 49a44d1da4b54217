#include <trainer/seam_set.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/near.hpp>

#include <algorithm>

namespace kl::trainer {
namespace {

constexpr const char* kRmsnorm = "rmsnorm";
constexpr const char* kActivation = "activation_pointwise";
constexpr const char* kLoss = "loss_prelude";

constexpr DLDataType kFloat32{kDLFloat, 32, 1}, kFloat64{kDLFloat, 64, 1}, kInt32{kDLInt, 32, 1};
const TensorForm kAbsent{{}, kFloat32};

std::vector<std::string> seam_names() { return {kRmsnorm, kActivation, kLoss}; }

Result<fs::path> champion_source(const std::string& target, const Engine& engine) {
  std::error_code code;
  for (const auto& folder : target_search_path({}))
    for (const auto& name : engine.kernel_files())
      if (const fs::path file = folder / target / name; fs::is_regular_file(file, code)) return file;
  return make_error(Status::unsupported_target, "no champion of " + target + " for this engine",
                    "install Kernel Lab whole, or run where ./targets holds it");
}

}  // namespace

std::vector<SeamDescription> describe_seams(const Config& c) {
  const int64_t N = c.tokens();
  if (c.device == "cuda") {  // the activation has no CUDA kernel yet: it is plain code of the step
    const int64_t chunks = N / c.loss_chunk();
    return {{kRmsnorm, kRmsnorm,
             {{{{"N", N}, {"C", c.width}}, "bf16", {{"eps", c.eps}}, {"w"}, (2 * c.layers + 2) * c.accumulation}}},
            {kLoss, kLoss,
             {{{{"N", c.loss_chunk()}, {"V", c.vocab}}, "bf16", {{"softcap", c.softcap}}, {},
               chunks * c.accumulation}}}};
  }
  return {{kRmsnorm, kRmsnorm,
           {{{{"N", N}, {"C", c.width}}, "f32", {{"eps", c.eps}}, {"w"}, (2 * c.layers + 2) * c.accumulation}}},
          {kActivation, kActivation,
           {{{{"N", N}, {"C", 4 * c.width}}, "f32", {}, {}, c.layers * c.accumulation}}},
          {kLoss, kLoss,
           {{{{"N", N}, {"V", c.vocab}}, "f32", {{"softcap", c.softcap}}, {}, c.accumulation}}}};
}

Result<SeamFiles> champion_files(const Config& config, const Engine& engine, const Builder& builder) {
  SeamFiles files;
  for (const auto& seam : describe_seams(config)) {
    KL_TRY(const fs::path source, champion_source(seam.target, engine));
    KL_TRY(const BuiltLibrary built, builder.build({source, "", {}}));
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
      return make_error(Status::usage, "the plan names a seam '" + name + "' that this preset has not",
                        suggestion(name, names));
  for (const auto& name : names) {
    const auto it = files.find(name);
    if (it == files.end())
      return make_error(Status::usage, "the plan gives no library for the seam " + name,
                        "give one for each of " + list);
    KL_TRY(const std::string hash, sha256_file(it->second.path));
    if (!it->second.library_hash.empty() && it->second.library_hash != hash)
      return make_error(Status::load_failed,
                        it->second.path + " has hash " + hash + ", the plan says " + it->second.library_hash,
                        "build it again");
    it->second.library_hash = hash;
  }
  return files;
}

Result<std::unique_ptr<SeamSet>> SeamSet::open(const Config& c, const SeamFiles& wanted,
                                               std::span<const int32_t> token_bytes, int threads) {
  KL_TRY(SeamFiles files, checked_files(c, wanted));
  const int64_t N = c.tokens(), C = c.width, V = c.vocab;
  const TensorForm x{{N, C}}, h{{N, 4 * C}}, logits{{N, V}}, rows{{N}};
  const TensorForm targets{{N}, kInt32}, bytes{{V}, kInt32}, one{{1}}, sum{{1}, kFloat64};
  KL_TRY(LibrarySeam rmsnorm,
         LibrarySeam::open(files[kRmsnorm].path, kRmsnorm, {{x, kAbsent}, {x}, {c.eps}},
                           {{x, x, kAbsent}, {x, kAbsent}, {c.eps}}, static_cast<int>(2 * c.layers + 2), threads));
  KL_TRY(LibrarySeam activation,
         LibrarySeam::open(files[kActivation].path, kActivation, {{h}, {h}, {}}, {{h, h}, {h}, {}},
                           static_cast<int>(c.layers), threads));
  KL_TRY(LibrarySeam loss,
         LibrarySeam::open(files[kLoss].path, kLoss, {{logits, targets, bytes}, {rows, sum, sum}, {c.softcap}},
                           {{one, logits, targets}, {logits}, {c.softcap}}, 1, threads));
  std::unique_ptr<SeamSet> set(
      new SeamSet(std::move(rmsnorm), std::move(activation), std::move(loss), token_bytes));
  set->token_bytes_.resize(static_cast<size_t>(V), 0);
  set->files_ = std::move(files);
  return set;
}

void SeamSet::rmsnorm_forward(int site, const float* x, float* y) {
  rmsnorm_.forward(site, {x, nullptr}, {y});
}
void SeamSet::rmsnorm_backward(int site, const float* dy, const float* x, float* dx) {
  rmsnorm_.backward(site, {dy, x, nullptr}, {dx, nullptr});
}
void SeamSet::activation_forward(int site, const float* h, float* y) {
  activation_.forward(site, {h}, {y});
}
void SeamSet::activation_backward(int site, const float* dy, const float* h, float* dh) {
  activation_.backward(site, {dy, h}, {dh});
}
void SeamSet::loss_forward(const float* logits, const int32_t* targets, float* nll) {
  loss_.forward(0, {logits, targets, token_bytes_.data()}, {nll, &nll_sum_, &byte_sum_});
}
void SeamSet::loss_backward(float g, const float* logits, const int32_t* targets, float* dlogits) {
  loss_.backward(0, {&g, logits, targets}, {dlogits});
}

Outcome SeamSet::perturb(const std::string& seam, uint64_t seed) {
  if (seam == kRmsnorm)
    rmsnorm_.perturb(seed);
  else if (seam == kActivation)
    activation_.perturb(seed);
  else if (seam == kLoss)
    loss_.perturb(seed);
  else
    return make_error(Status::usage, "no seam named '" + seam + "'", suggestion(seam, seam_names()));
  return {};
}

std::map<std::string, SeamCounts> SeamSet::counts() const {
  return {{kRmsnorm, rmsnorm_.counts()}, {kActivation, activation_.counts()}, {kLoss, loss_.counts()}};
}

Outcome SeamSet::fault() const {
  KL_CHECK(rmsnorm_.fault());
  KL_CHECK(activation_.fault());
  return loss_.fault();
}

}  // namespace kl::trainer
