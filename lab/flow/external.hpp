// Traces of programs that are not the lab's trainer. Each is filed under a preset of its own, `external:NAME`, of which
// the lab knows the shares and nothing else: no shapes, no seams, no run.
#pragma once

#include <lab/flow/ranking.hpp>
#include <lab/trace/summary.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

bool is_external(std::string_view preset);

// The file's name without the endings of trace formats: "run.pt.trace" of "t/run.pt.trace.json.gz".
std::string stem_of_trace(const std::filesystem::path& trace);
// `external:` and that stem; what a shell or a path would read otherwise becomes `_`.
std::string external_preset(const std::filesystem::path& trace);
// As a user gives it; usage where the name is empty or has characters that external_preset() leaves out.
Outcome check_external(std::string_view preset);

// What a trace gives every target that the step runs: the union of its seam's ranges where it has them, else of its
// family's kernels. A family belongs to all its targets together, so its share is the most that any of them can have;
// among several families of one target, the largest. Targets without any, and without credit, get `not_on_path`.
void add_family_shares(const trace::Summary& summary, std::vector<TargetFacts>& targets);

}  // namespace kl
