#include <lab/ledger/upkeep.hpp>

#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/ledger/locked_file.hpp>
#include <lab/ledger/scan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace kl {
namespace {

using OnLine = std::function<void(int64_t number, std::string_view text, ParsedLine parsed)>;

// Every line of one file, in order, wholly parsed.
Outcome for_each_line(const LockedFile& file, const OnLine& on_line) {
  return scan_lines(
      file.fd(), file.size_bytes(), 1,
      [&](size_t, const ScannedLine& line) {
        on_line(line.line + 1, line.text, parse_ledger_line(line.text));
      },
      [](size_t, int64_t) {});
}

void count(LedgerHealth& health, int64_t number, const ParsedLine& parsed) {
  ++health.lines;
  if (parsed.kind == LineKind::event)
    health.unidentified += !parsed.event.identified();
  else
    health.add(parsed.kind, number, parsed.what);
}

// A file of lines of which none is one of a ledger is another program's, and not a damaged ledger.
Outcome require_ledger(const LedgerHealth& health, const fs::path& path) {
  const bool one_torn = health.lines == 1 && health.torn == 1;  // as a first append that was cut off leaves it
  if (health.lines == 0 || one_torn || health.torn + health.corrupt < health.lines) return {};
  return make_error(Status::usage, fmt::format("{} is no ledger: none of its {} lines is an event", path.string(), health.lines),
                    "check the path; nothing was changed");
}

bool is_kept(LineKind kind) { return kind == LineKind::event || kind == LineKind::unknown_version; }

// What a line of an unknown version can still be ordered by.
std::string created_at_of(std::string_view text, const ParsedLine& parsed) {
  if (parsed.kind == LineKind::event) return parsed.event.created_at;
  const Json json = Json::parse(text, nullptr, false);
  const auto it = json.is_object() ? json.find("created_at") : json.end();
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}

struct MergedLine {
  std::string created_at;
  std::string id;
  std::string text;
};

}  // namespace

Result<LedgerHealth> check_ledger(const fs::path& path) {
  LedgerHealth health;
  KL_TRY(const LockedFile file, LockedFile::open(path, LedgerLock::shared));
  KL_CHECK(for_each_line(file, [&](int64_t number, std::string_view, const ParsedLine& parsed) {
    count(health, number, parsed);
  }));
  KL_CHECK(require_ledger(health, path));
  return health;
}

Result<LedgerRepair> repair_ledger(const fs::path& path) {
  LedgerRepair repair;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return ledger_error("open", path, ENOENT);
  // Held until the new file is in place: an append that waits here then opens the new one.
  KL_TRY(const LockedFile file, LockedFile::open(path, LedgerLock::exclusive));
  std::string kept, quarantined;
  KL_CHECK(
      for_each_line(file, [&](int64_t number, std::string_view text, const ParsedLine& parsed) {
        count(repair.before, number, parsed);
        const bool keep = is_kept(parsed.kind);
        (keep ? repair.kept : repair.quarantined) += 1;
        (keep ? kept : quarantined).append(text).push_back('\n');
      }));
  KL_CHECK(require_ledger(repair.before, path));
  if (quarantined.empty()) return repair;
  const fs::path aside = path.string() + ".quarantine";
  repair.quarantine = aside.string();
  std::string earlier;
  if (fs::exists(aside, ignored)) {
    KL_TRY(earlier, read_file(aside));
  }
  KL_CHECK(write_file_atomic(aside, earlier + quarantined));
  KL_CHECK(write_file_atomic(path, kept));
  return repair;
}

Result<LedgerMerge> merge_ledgers(const std::vector<fs::path>& inputs, const fs::path& output) {
  LedgerMerge merge;
  merge.output = output.string();
  std::vector<MergedLine> lines;
  std::unordered_map<std::string, size_t> seen;
  const auto take = [&](const LockedFile& file, const fs::path& path) -> Outcome {
    LedgerHealth own;
    KL_CHECK(for_each_line(
        file, [&](int64_t number, std::string_view text, const ParsedLine& parsed) {
          count(merge.set_aside, number, parsed);
          count(own, number, parsed);
          if (!is_kept(parsed.kind)) return;
          std::string id = parsed.event.identified() ? parsed.event.id : sha256_hex(text);
          if (!seen.emplace(id, lines.size()).second) {
            ++merge.duplicates;
            return;
          }
          lines.push_back({created_at_of(text, parsed), std::move(id), std::string(text)});
        }));
    return require_ledger(own, path);
  };
  for (const auto& input : inputs) {
    merge.inputs.push_back(input.string());
    KL_TRY(const LockedFile file, LockedFile::open(input, LedgerLock::shared));
    KL_CHECK(take(file, input));
  }
  std::error_code ignored;
  const bool existed = fs::exists(output, ignored);
  KL_TRY(const LockedFile target, LockedFile::open(output, LedgerLock::exclusive));
  const bool is_input = std::any_of(inputs.begin(), inputs.end(), [&](const fs::path& input) {
    std::error_code code;
    return fs::equivalent(input, output, code);
  });
  // An input that is also the output is read again under the lock: it may have grown meanwhile.
  const int64_t duplicates = merge.duplicates;
  const LedgerHealth set_aside = merge.set_aside;
  if (existed) KL_CHECK(take(target, output));
  if (is_input) {
    merge.duplicates = duplicates;
    merge.set_aside = set_aside;
  }
  std::sort(lines.begin(), lines.end(), [](const MergedLine& a, const MergedLine& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  std::string content;
  for (const auto& line : lines) content.append(line.text).push_back('\n');
  merge.events = static_cast<int64_t>(lines.size());
  KL_CHECK(write_file_atomic(output, content));
  return merge;
}

Result<LedgerStats> ledger_stats(const fs::path& path) {
  LedgerStats stats;
  KL_TRY(const LockedFile file, LockedFile::open(path, LedgerLock::shared));
  stats.size_bytes = file.size_bytes();
  KL_CHECK(for_each_line(file, [&](int64_t number, std::string_view, const ParsedLine& parsed) {
    count(stats.health, number, parsed);
    if (parsed.kind != LineKind::event) return;
    const LedgerEvent& event = parsed.event;
    ++stats.by_event_type[event.event_type];
    ++stats.by_target[event.target];
    ++stats.by_engine[event.engine];
    ++stats.by_status[event.status];
    auto& first = stats.first_created_at;
    if (first.empty() || event.created_at < first) first = event.created_at;
    stats.last_created_at = std::max(stats.last_created_at, event.created_at);
  }));
  KL_CHECK(require_ledger(stats.health, path));
  return stats;
}

}  // namespace kl
