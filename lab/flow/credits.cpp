#include <lab/flow/credits.hpp>

namespace kl {

void add_credits(const trace::Summary& summary, std::vector<TargetFacts>& targets) {
  for (const trace::Opportunity& opportunity : summary.opportunities)
    for (TargetFacts& one : targets)
      if (one.target == opportunity.name && one.not_on_path.empty()) {
        one.credited_share = opportunity.share;
        one.credited_for = opportunity.reason;
      }
}

}  // namespace kl
