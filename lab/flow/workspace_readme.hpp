// README.md of a workspace: the contract of its target.
#pragma once

#include <lab/flow/workspace.hpp>

namespace kl {

std::string workspace_readme(const Target& target, const WorkspaceRecord& record);

}  // namespace kl
