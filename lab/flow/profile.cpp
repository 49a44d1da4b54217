#include <lab/flow/profile.hpp>

#include <lab/core/record_file.hpp>

#include <fmt/format.h>

#include <array>

namespace kl {
namespace {

template <class Record>
Result<ReadProfile> read_as(const RecordFile& found, const std::string& remedy) {
  KL_TRY(const Record record, record_in<Record>(found, remedy));
  ReadProfile profile{record.schema, record.engine, record.preset, found.file.string(), "", record.status, record.candidates};
  if constexpr (requires { record.trace; }) profile.trace = record.trace;
  return profile;
}

Result<ReadProfile> read_either(const fs::path& file, std::span<const std::string_view> schemas, const std::string& remedy) {
  KL_TRY(const RecordFile found, read_record_file(file, schemas, remedy));
  if (found.header.schema == ProfileRecord::kSchema) return read_as<ProfileRecord>(found, remedy);
  return read_as<TraceProfileRecord>(found, remedy);
}

}  // namespace

Result<ReadProfile> read_profile(const std::filesystem::path& file) {
  static constexpr std::array schemas = {ProfileRecord::kSchema, TraceProfileRecord::kSchema};
  return read_either(file, schemas, "`kernel-lab profile --output FILE` or `kernel-lab trace-profile` writes one");
}

Result<ReadProfile> read_profile_of(const std::filesystem::path& file, std::string_view schema) {
  return read_either(file, {&schema, 1}, fmt::format("`kernel-lab {}` writes one", schema));
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
