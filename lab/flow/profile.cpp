#include <lab/flow/profile.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

namespace kl {
namespace {

template <class Record>
Result<ReadProfile> read_as(const Json& json, const std::string& file) {
  const auto record = from_json<Record>(json);
  if (!record.ok())
    return make_error(Status::usage, fmt::format("{}: {}", file, record.error().what),
                      "write it again with `kernel-lab profile --output` or `kernel-lab trace-profile`");
  ReadProfile profile{record->schema, record->engine, record->preset, file, "", record->status, record->candidates};
  if constexpr (requires { record->trace; }) profile.trace = record->trace;
  return profile;
}

}  // namespace

Result<ReadProfile> read_profile(const std::filesystem::path& file) {
  const std::string name = file.string();
  const std::string remedy = "`kernel-lab profile --output FILE` or `kernel-lab trace-profile` writes one";
  const auto json = read_json_file(file);
  if (!json.ok()) return make_error(Status::usage, json.error().what, remedy);
  const std::string schema = json->is_object() && json->contains("schema") && (*json)["schema"].is_string()
                                 ? (*json)["schema"].get<std::string>() : "";
  if (schema == ProfileRecord::kSchema) return read_as<ProfileRecord>(*json, name);
  if (schema == TraceProfileRecord::kSchema) return read_as<TraceProfileRecord>(*json, name);
  return make_error(Status::usage,
                    fmt::format("{} is {}, not a profile", name, schema.empty() ? "no record of the lab" : "a record '" + schema + "'"),
                    remedy);
}

Result<ReadProfile> read_profile_of(const std::filesystem::path& file, std::string_view schema) {
  KL_TRY(ReadProfile profile, read_profile(file));
  if (profile.schema == schema) return profile;
  return make_error(Status::usage, fmt::format("{} is a record of {}, not of {}", file.string(), profile.schema, schema),
                    fmt::format("`kernel-lab {}` writes one", schema));
}

Result<RankedCandidate> candidate_of_rank(const ReadProfile& profile, int64_t rank) {
  for (const RankedCandidate& candidate : profile.candidates)
    if (candidate.rank == rank) return candidate;
  if (profile.candidates.empty())
    return make_error(Status::usage, fmt::format("{} ranks no target ({})", profile.file, to_string(profile.status)),
                      "see its `reason` and `not_ranked`");
  return make_error(Status::usage, fmt::format("{} has no rank {}", profile.file, rank),
                    fmt::format("ranks go from 1 to {}", profile.candidates.size()));
}

}  // namespace kl
