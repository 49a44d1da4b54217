#include <lab/trace/families.hpp>

#include <algorithm>
#include <array>

namespace kl::trace {
namespace {

struct Row {
  std::string_view subject, family;
};

// A fused seam has the family of what it spends its time with. Its first row says it; a second one, a family whose work
// it would replace, too.
constexpr std::array kTable = {
    Row{"activation_pointwise", "fused_mlp_act"},
    Row{"attention_mask_local", "elementwise"},
    Row{"attention_prelude", "matmul"},
    Row{"block_prelude", "matmul"},
    Row{"cross_entropy_full", "loss"},
    Row{"cross_entropy_prelude", "loss"},
    Row{"cross_entropy_prelude", "softmax_logsoftmax"},
    Row{"data_movement", "data_movement"},
    Row{"flash_attention", "flash_attention"},
    Row{"fused_mlp", "fused_mlp"},
    Row{"launch_fusion", "elementwise"},
    Row{"layernorm", "norm"},
    Row{"logits_softcap", "elementwise"},
    Row{"loss_logits_cast_softcap", "elementwise"},
    Row{"loss_prelude", "loss"},
    Row{"matmul", "matmul"},
    Row{"matmul_epilogue", "matmul"},
    Row{"optimizer_update", "optimizer"},
    Row{"proj_head_reshape", "data_movement"},
    Row{"qk_rmsnorm", "norm"},
    Row{"reduce", "reduction"},
    Row{"residual_blend", "elementwise"},
    Row{"residual_rmsnorm", "norm"},
    Row{"rmsnorm", "norm"},
    Row{"rope_qk_fused", "rope"},
    Row{"rotary_embedding", "rope"},
    Row{"softmax", "softmax"},
    Row{"softmax", "softmax_logsoftmax"},
    Row{"trainer/clear", "data_movement"},
    Row{"trainer/copy", "data_movement"},
    Row{"trainer/data", "data_movement"},
    Row{"trainer/embedding", "embedding"},
    Row{"trainer/loss_sum", "reduction"},
    Row{"trainer/sum", "elementwise"},
    Row{"value_embed_gate", "elementwise"},
    Row{"ve_lookup_reshape", "embedding"},
};

}  // namespace

std::string_view family_of_work(std::string_view subject) {
  const auto it = std::lower_bound(kTable.begin(), kTable.end(), subject,
                                   [](const Row& row, std::string_view name) { return row.subject < name; });
  return it != kTable.end() && it->subject == subject ? it->family : kUnknownFamily;
}

std::vector<std::string_view> targets_of_family(std::string_view family) {
  std::vector<std::string_view> targets;
  for (const Row& row : kTable)
    if (row.family == family && row.subject != "matmul" && !row.subject.starts_with("trainer/")) targets.push_back(row.subject);
  return targets;
}

std::string_view subject_of(std::string_view name) { return name.substr(0, std::min(name.rfind('/'), name.size())); }

std::string_view part_of(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(slash + 1);
}

}  // namespace kl::trace
