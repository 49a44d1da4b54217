#include <trainer/tokenizer.hpp>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace kl::trainer {

Tokenizer::Tokenizer() : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Outcome Tokenizer::train(const std::filesystem::path& sample, const std::filesystem::path& prefix,
                         int64_t vocab) {
  // Identity normalisation: the text that is modelled is the text that is given.
  const auto status = sentencepiece::SentencePieceTrainer::Train({
      {"input", sample.string()},
      {"model_prefix", prefix.string()},
      {"vocab_size", std::to_string(vocab)},
      {"model_type", "bpe"},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9995"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"max_sentence_length", "65536"},
      {"num_threads", "1"},
      {"minloglevel", "3"},
  });
  if (!status.ok())
    return make_error(Status::error, "SentencePiece could not train a vocabulary of " +
                                         std::to_string(vocab) + ": " + status.ToString(),
                      "choose a smaller vocab, or more text");
  return {};
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& model) {
  Tokenizer tokenizer;
  if (const auto status = tokenizer.processor_->Load(model.string()); !status.ok())
    return make_error(Status::error, "cannot load " + model.string() + ": " + status.ToString(),
                      "give a SentencePiece model; in the cache, remove its folder: it is made again");
  return tokenizer;
}

int64_t Tokenizer::vocab() const { return processor_->GetPieceSize(); }

int32_t Tokenizer::bos() const { return processor_->bos_id(); }

Result<std::vector<int>> Tokenizer::encode(std::string_view text) const {
  std::vector<int> ids;
  if (const auto status = processor_->Encode({text.data(), text.size()}, &ids); !status.ok())
    return make_error(Status::error, "SentencePiece could not encode: " + status.ToString(), "");
  return ids;
}

std::vector<int32_t> Tokenizer::piece_bytes() const {
  constexpr std::string_view space = "\xe2\x96\x81";  // how a piece spells a space
  std::vector<int32_t> bytes(static_cast<size_t>(vocab()), 0);
  for (int id = 0; id < processor_->GetPieceSize(); ++id) {
    if (processor_->IsControl(id) || processor_->IsUnknown(id) || processor_->IsUnused(id)) continue;
    int32_t& count = bytes[static_cast<size_t>(id)];
    if (processor_->IsByte(id)) {
      count = 1;
      continue;
    }
    const std::string& piece = processor_->IdToPiece(id);
    count = static_cast<int32_t>(piece.size());
    for (size_t at = piece.find(space); at != std::string::npos; at = piece.find(space, at + 3))
      count -= 2;
  }
  return bytes;
}

}  // namespace kl::trainer
