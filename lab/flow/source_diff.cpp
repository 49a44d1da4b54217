#include <lab/flow/source_diff.hpp>

#include <lab/core/files.hpp>
#include <lab/core/process.hpp>

#include <fmt/format.h>

namespace kl {

Result<SourceDiff> diff_sources(std::string_view before, std::string_view after,
                                const std::string& before_label, const std::string& after_label) {
  KL_TRY(const TemporaryFolder folder, TemporaryFolder::create("kernel-lab-diff"));
  KL_CHECK(write_file_atomic(folder.path() / "before", before));
  KL_CHECK(write_file_atomic(folder.path() / "after", after));
  Command command;
  command.arguments = {"diff",    "-u",        "-a",     "--label", before_label,
                       "--label", after_label, "before", "after"};
  command.environment["LC_ALL"] = "C";
  command.folder = folder.path();
  command.timeout_seconds = 60;
  command.output_limit_bytes = 64 << 20;
  KL_TRY(Finished finished, run_process(command));
  // 0: the same, 1: different, 2: trouble.
  if (finished.timed_out || finished.output_truncated || finished.exit_code < 0 ||
      finished.exit_code > 1)
    return make_error(Status::error, fmt::format("diff failed: {}", finished.err),
                      "is diffutils installed whole?");
  SourceDiff diff{std::move(finished.out)};
  bool in_hunk = false;
  for (std::string_view rest = diff.text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1);
    in_hunk |= rest.starts_with("@@");
    diff.lines_added += in_hunk && rest.front() == '+';
    diff.lines_removed += in_hunk && rest.front() == '-';
    rest.remove_prefix(end + 1);
  }
  return diff;
}

}  // namespace kl
