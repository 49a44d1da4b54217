#include <lab/flow/workspace.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/near.hpp>
#include <lab/flow/workspace_readme.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace kl {
namespace {

constexpr std::string_view kRecordFile = "workspace.json";

Error invalid(std::string what, std::string remedy) {
  return make_error(Status::invalid_workspace, std::move(what), std::move(remedy));
}

std::string content_hash(Json json) {
  json.erase("content_hash");
  return sha256_hex(dump_line(json));
}

// Every file an engine would take as champion, in its order, that exists.
std::vector<fs::path> starters(const Target& target, const Engine& engine) {
  std::vector<fs::path> found;
  for (const auto& name : engine.kernel_files())
    if (std::error_code code; fs::is_regular_file(target.folder / name, code))
      found.push_back(target.folder / name);
  return found;
}

Result<fs::path> choose_starter(const InitRequest& request) {
  const Target& target = *request.target;
  if (request.language.empty()) {
    if (const auto champion = target.champion(*request.engine)) return *champion;
  }
  std::vector<std::string> languages;
  for (const auto& file : starters(target, *request.engine)) {
    const std::string language = language_of(file);
    if (language == request.language) return file;
    if (std::find(languages.begin(), languages.end(), language) == languages.end())
      languages.push_back(language);
  }
  if (languages.empty())
    return no_champion(target, *request.engine);
  return make_error(Status::usage,
                    fmt::format("target {} has no {} kernel for engine {}", target.key,
                                request.language, request.engine->name()),
                    suggestion(request.language, languages));
}

Outcome check_folder_is_free(const fs::path& folder) {
  std::error_code code;
  if (folder.empty())
    return make_error(Status::usage, "no workspace folder was given",
                      "give one with --workspace DIR");
  if (!fs::exists(folder, code)) return {};
  if (!fs::is_directory(folder, code))
    return make_error(Status::usage, fmt::format("{} is a file", folder.string()),
                      "give a folder that does not exist yet");
  if (fs::exists(folder / kRecordFile, code))
    return make_error(Status::usage, fmt::format("{} is a workspace already", folder.string()),
                      "use it as it is, or give a folder that does not exist yet");
  if (!fs::is_empty(folder, code))
    return make_error(Status::usage, fmt::format("{} is not empty", folder.string()),
                      "give a folder that does not exist yet, or an empty one");
  return {};
}

Result<WorkspaceRecord> read_record(const fs::path& folder) {
  std::error_code code;
  const fs::path path = folder / kRecordFile;
  if (!fs::is_directory(folder, code))
    return invalid(fmt::format("{} is not a folder", folder.string()),
                   "was the workspace moved? Give its folder with --workspace, or make one with "
                   "`kernel-lab init`");
  if (!fs::exists(path, code))
    return invalid(fmt::format("{} has no {}", folder.string(), kRecordFile),
                   "give the folder of a workspace, or make one with `kernel-lab init`");
  const auto json = read_json_file(path);
  if (!json.ok())
    return invalid(json.error().what,
                   "make a new workspace with `kernel-lab init` and copy your kernel file into it");
  const std::string remedy =
      "undo the edit, or make a new workspace with `kernel-lab init` and copy your kernel file "
      "into it";
  auto record = from_json<WorkspaceRecord>(*json);
  if (!json->is_object() || !record.ok())
    return invalid(
        fmt::format("{}: {}", path.string(), record.ok() ? "not an object" : record.error().what),
        remedy);
  if (record->schema != WorkspaceRecord::kSchema || record->schema_version != 1)
    return invalid(fmt::format("{} is {} version {}, not workspace version 1", path.string(),
                               record->schema, record->schema_version),
                   remedy);
  if (record->content_hash != content_hash(*json))
    return invalid(fmt::format("{} was edited: its content_hash does not match", path.string()),
                   remedy);
  return record;
}

}  // namespace

std::string language_of(const fs::path& kernel_file) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kLanguages = {
      {{".mlx.cpp", "mlx"}, {".cpp", "c++"}, {".cu", "cuda"}, {".py", "triton"}, {".hip", "hip"}}};
  const std::string name = kernel_file.filename().string();
  for (const auto& [suffix, language] : kLanguages)
    if (name.ends_with(suffix)) return std::string(language);
  return "unknown";
}

Result<Workspace> init_workspace(const InitRequest& request) {
  KL_CHECK(check_folder_is_free(request.folder));
  KL_TRY(const fs::path starter, choose_starter(request));
  KL_TRY(const std::string source, read_file(starter));
  Workspace workspace;
  workspace.folder = request.folder;
  WorkspaceRecord& record = workspace.record;
  record.created_at = utc_now();
  record.lab_version = kLabVersion;
  record.engine = request.engine->name();
  record.target = request.target->key;
  record.language = language_of(starter);
  record.metric = kWorkspaceMetric;
  record.kernel_file = starter.filename().string();
  record.champion_hash = sha256_hex(source);
  record.context.preset = request.preset;
  record.context.profile = request.profile;
  record.context.rank = request.rank;
  record.context.score = request.score;
  record.context.category = request.category;
  record.context.rationale = request.rationale;
  record.content_hash = content_hash(to_json(record));
  KL_CHECK(write_file_atomic(workspace.kernel(), source));
  KL_CHECK(write_file_atomic(workspace.folder / "README.md", workspace_readme(*request.target, record)));
  // Last: a folder without it is no workspace.
  KL_CHECK(write_file_atomic(workspace.folder / kRecordFile, dump_pretty(to_json(record)) + "\n"));
  return workspace;
}

Result<Workspace> open_workspace(const fs::path& folder, const Catalogue& catalogue,
                                 KernelFile kernel) {
  KL_TRY(WorkspaceRecord record, read_record(folder));
  const auto target = catalogue.find(record.target);
  if (!target.ok())
    return invalid(fmt::format("workspace {} is of target {}: {}", folder.string(), record.target,
                               target.error().what),
                   target.error().remedy + " (--targets DIR adds a folder of targets)");
  Workspace workspace{folder, std::move(record)};
  const std::string& name = workspace.record.kernel_file;
  if (name.empty() || name.find('/') != std::string::npos)
    return invalid(fmt::format("workspace {} names the kernel file '{}'", folder.string(), name),
                   "make a new workspace with `kernel-lab init`");
  std::error_code code;
  const bool present = fs::is_regular_file(workspace.kernel(), code);
  if (!present && kernel == KernelFile::required)
    return invalid(
        fmt::format("workspace {} has no {}", folder.string(), name),
        fmt::format("put your kernel back as {}, or `kernel-lab restore` a recorded one", name));
  for (const auto& [path, mode] : {std::pair{workspace.kernel(), R_OK}, {folder, W_OK | X_OK}})
    if ((present || mode != R_OK) && ::access(path.c_str(), mode) != 0)
      return invalid(
          fmt::format("{} cannot be {}: {}", path.string(), mode == R_OK ? "read" : "written",
                      std::strerror(errno)),
          "change its permissions (chmod u+rwX), or copy the workspace to a place of your own");
  return workspace;
}

}  // namespace kl
