#include <trainer/checkpoint.hpp>

namespace kl::trainer {
namespace {

constexpr const char* kVersion = "1";

// Weights and the optimiser's tensors, over the stepper's host copies.
Result<std::vector<NamedTensor>> tensors_of(Session& session) {
  KL_TRY(const std::span<float> weights, session.stepper().weights());
  std::vector<NamedTensor> tensors = named_tensors(session.layout(), weights);
  KL_TRY(OptimiserState state, session.stepper().optimiser_state());
  for (NamedTensor& t : state.tensors) tensors.push_back(std::move(t));
  return tensors;
}

Error no_checkpoint(const std::filesystem::path& path, const std::string& why) {
  return make_error(
      Status::usage, path.string() + " is no checkpoint: " + why,
      "give a file that --checkpoint wrote; weights alone (--save) cannot be resumed");
}

}  // namespace

Outcome write_checkpoint(Session& session, const RunPosition& position,
                         const std::filesystem::path& path) {
  KL_TRY(const OptimiserState state, session.stepper().optimiser_state());
  KL_TRY(const std::vector<NamedTensor> tensors, tensors_of(session));
  const Metadata metadata = {{"checkpoint", kVersion},
                             {"config", dump_line(to_json(session.config()))},
                             {"position", dump_line(to_json(position))},
                             {"updates", std::to_string(state.updates)},
                             {"corpus_hash", session.dataset().facts.corpus_hash}};
  return write_safetensors(path, tensors, metadata);
}

Result<CheckpointFacts> read_checkpoint_facts(const std::filesystem::path& path) {
  KL_TRY(Metadata metadata, read_metadata(path));
  if (metadata["checkpoint"] != kVersion)
    return no_checkpoint(path, metadata["checkpoint"].empty()
                                   ? "it holds no run"
                                   : "its version is " + metadata["checkpoint"]);
  CheckpointFacts facts;
  KL_TRY(const Json config, parse_json(metadata["config"], path.string()));
  KL_TRY(facts.config, from_json<Config>(config));
  KL_TRY(const Json position, parse_json(metadata["position"], path.string()));
  KL_TRY(facts.position, from_json<RunPosition>(position));
  facts.corpus_hash = metadata["corpus_hash"];
  KL_CHECK(validate(facts.config));
  return facts;
}

Outcome resume(Session& session, const CheckpointFacts& facts, const std::filesystem::path& path) {
  if (session.dataset().facts.corpus_hash != facts.corpus_hash)
    return make_error(
        Status::usage, path.string() + " was trained on other data",
        "give the corpus of that run: its hash begins " + facts.corpus_hash.substr(0, 12));
  KL_TRY(const std::vector<NamedTensor> tensors, tensors_of(session));
  KL_TRY(Metadata metadata, read_safetensors(path, tensors));
  KL_CHECK(session.stepper().weights_changed());
  KL_CHECK(session.stepper().optimiser_changed(std::atoll(metadata["updates"].c_str())));
  session.go_to(facts.position.step);
  return {};
}

}  // namespace kl::trainer
