#include "command.hpp"

#include <lab/flow/new_target.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

// --targets DIR for a next command, when DIR is not searched already.
std::string targets_flag(const Context& context, const fs::path& folder) {
  std::error_code code;
  for (const auto& known : context.target_path)
    if (fs::equivalent(known, folder, code)) return "";
  const bool found_unasked = folder.lexically_normal() == "targets";
  return found_unasked ? "" : " --targets " + folder.string();
}

}  // namespace

Command command_new_target() {
  auto request = std::make_shared<NewTargetRequest>();
  Command command;
  command.name = "new-target";
  command.summary = "folder of an operation of your own: spec, oracle, kernels, ready to edit";
  command.examples = {"new-target --key swiglu --like activation_pointwise --dir my-targets",
                      "new-target --key swiglu --from \"y[N,C] = swiglu(x[N,C], g[N,C])\" --dir my-targets",
                      "--targets my-targets init --target swiglu --workspace mine   (then verify)"};
  request->folder = "targets";
  command.flags = [request](CLI::App& app) {
    app.add_option("--key", request->key, "name of the target and of its folder")->required()->type_name("KEY");
    auto* like = app.add_option("--like", request->like, "start from a copy of this target")->type_name("TARGET");
    app.add_option("--from", request->signature, "start from a signature: outputs = f(inputs), with axes in brackets")
        ->type_name("SIGNATURE")->excludes(like);
    app.add_option("--dir", request->folder, "folder of targets to put it in (default targets, which is searched unasked)")
        ->type_name("DIR");
  };
  command.run = [request](Context& context) -> Result<Answer> {
    std::vector<fs::path> path = context.target_path;
    path.insert(path.begin(), request->folder);
    KL_TRY(const NewTargetRecord record, make_target(*request, Catalogue::search(path)));
    Answer answer;
    answer.record = to_json(record);
    for (const auto& file : record.files) answer.text += (fs::path(record.folder) / file).string() + "\n";
    answer.next = fmt::format("kernel-lab{}{} init --target {} --workspace DIR   (after editing spec.toml, oracle.cpp and reference.cpp)",
                              context.global_flags, targets_flag(context, request->folder), request->key);
    return answer;
  };
  return command;
}

}  // namespace kl::app
