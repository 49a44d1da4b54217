#include <trainer/range_log.hpp>

#include <array>

namespace kl::trainer {
namespace {

constexpr std::array<std::string_view, 6> kPasses = {"data", "embedding", "sum", "copy", "clear", "loss_sum"};

}  // namespace

std::string name_of(const StepRange& range) {
  switch (range.kind) {
    case StepRange::Kind::seam: {
      const SeamContract& contract = contract_of(static_cast<Seam>(range.what));
      return std::string(contract.key) + "/" + std::string(contract.operations[range.operation].name);
    }
    case StepRange::Kind::matmul:
      return "matmul/" + std::to_string(range.m) + "x" + std::to_string(range.n) + "x" + std::to_string(range.k);
    case StepRange::Kind::pass: break;
  }
  return "trainer/" + std::string(kPasses[range.what]);
}

}  // namespace kl::trainer
