#pragma once

#include <lab/flow/ranking.hpp>
#include <lab/report/style.hpp>

#include <string>
#include <vector>

namespace kl {

std::string ranking_text(const std::vector<RankedCandidate>& candidates, const std::vector<NotRanked>& not_ranked, const Style& style);

}  // namespace kl
