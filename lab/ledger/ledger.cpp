#include <lab/ledger/ledger.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/near.hpp>
#include <lab/ledger/locked_file.hpp>
#include <lab/ledger/scan.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

namespace kl {
namespace {

bool field_matches(const std::string& wanted, std::string_view value) {
  return wanted.empty() || value == wanted;
}

// What stands at the end of a line, and what stands further in front.
template <class Fields>
bool end_matches(const LedgerFilter& filter, const Fields& f) {
  return field_matches(filter.target, f.target) && field_matches(filter.preset, f.preset) &&
         field_matches(filter.workspace, f.workspace) && field_matches(filter.status, f.status);
}
template <class Fields>
bool front_matches(const LedgerFilter& filter, const Fields& f, std::string_view kernel,
                   std::string_view fingerprint_class) {
  const auto& types = filter.event_types;
  return field_matches(filter.engine, f.engine) && kernel.starts_with(filter.kernel) &&
         field_matches(filter.fingerprint_class, fingerprint_class) &&
         (types.empty() || std::find(types.begin(), types.end(), f.event_type) != types.end());
}

// For lines of another layout: false only when no field can have the wanted value.
bool could_match(const LedgerFilter& filter, std::string_view line) {
  const auto contains = [&](const std::string& value) {
    const bool plain =
        value.find_first_of("\"\\/") == std::string::npos &&
        std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c < 127; });
    if (value.empty() || !plain || line.find('\\') != std::string_view::npos) return true;
    return ::memmem(line.data(), line.size(), value.data(), value.size()) != nullptr;
  };
  return contains(filter.target) && contains(filter.preset) && contains(filter.engine) &&
         contains(filter.kernel) && contains(filter.fingerprint_class);
}

bool known_version(std::string_view digits) {
  int version = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  return code == std::errc{} && end == digits.data() + digits.size() && version >= 1 &&
         version <= kLedgerSchemaVersion;
}

// The version of a line of another layout, as text; empty when it names none.
std::string_view version_text(std::string_view line) {
  static constexpr std::string_view kKey = "\"ledger_schema_version\"";
  const size_t at = line.find(kKey);
  if (at == std::string_view::npos) return {};
  const size_t begin = line.find_first_not_of(" \t:", at + kKey.size());
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_first_of(",} \t", begin) - begin);
}

struct Match {
  int64_t offset_bytes;
  int64_t line;
  size_t size_bytes;
};

// One part of a scan: what to parse, and what is already known to be wrong.
struct Part {
  std::vector<Match> matches;
  std::vector<std::pair<LineKind, LedgerProblem>> problems;
  int64_t lines = 0;
  int64_t first_line = 1;

  void look_at(const LedgerFilter& filter, const ScannedLine& scanned) {
    ++lines;
    const std::string_view text = scanned.text;
    const auto set_aside = [&](LineKind kind, std::string what) {
      problems.push_back({kind, {scanned.line, std::string(to_string(kind)), std::move(what)}});
    };
    if (text.front() != '{' || text.back() != '}')
      return set_aside(LineKind::torn, "the line is not one whole JSON object");
    auto f = skim_line_end(text);
    const std::string_view version = f ? f->version : version_text(text);
    const bool wanted =
        !f ? could_match(filter, text)
           : end_matches(filter, *f) &&
                 (!skim_identity(*f) || front_matches(filter, *f, f->kernel, f->fingerprint_class));
    if (!version.empty() && !known_version(version))
      return set_aside(LineKind::unknown_version,
                       fmt::format("ledger_schema_version is {}", version));
    if (wanted) matches.push_back({scanned.offset_bytes, scanned.line, text.size()});
  }
};

struct Parsed {
  ParsedLine line;
  int64_t number;
};

std::vector<Parsed> parse_matches(int fd, const std::vector<Match>& matches) {
  std::vector<Parsed> parsed(matches.size());
  const size_t threads_wanted = matches.size() < 2000 ? 1 : scan_parts(INT64_MAX);
  const auto work = [&](size_t first) {
    std::string text;
    for (size_t i = first; i < matches.size(); i += threads_wanted) {
      text.resize(matches[i].size_bytes);
      const ssize_t n = ::pread(fd, text.data(), text.size(), matches[i].offset_bytes);
      parsed[i].number = matches[i].line;
      if (n == static_cast<ssize_t>(text.size()))
        parsed[i].line = parse_ledger_line(text);
      else
        parsed[i].line = {LineKind::torn, {}, "the line could not be read again"};
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < threads_wanted; ++i) threads.emplace_back(work, i);
  work(0);
  threads.clear();
  return parsed;
}

Outcome check_event(const LedgerEvent& event) {
  const auto types = ledger_event_types();
  if (std::find(types.begin(), types.end(), event.event_type) == types.end())
    return make_error(Status::error, fmt::format("unknown event type '{}'", event.event_type),
                      suggestion(event.event_type, types));
  if (!status_from_string(event.status))
    return make_error(Status::error, fmt::format("unknown status '{}'", event.status),
                      "use a status of the status table");
  return {};
}

}  // namespace

bool matches(const LedgerFilter& filter, const LedgerEvent& event) {
  const Identity& identity = event.identity;
  return end_matches(filter, event) &&
         front_matches(filter, event, identity.kernel, identity.fingerprint_class);
}

void LedgerHealth::add(LineKind kind, int64_t line, std::string what) {
  torn += kind == LineKind::torn;
  corrupt += kind == LineKind::corrupt;
  altered += kind == LineKind::altered;
  unknown_versions += kind == LineKind::unknown_version;
  if (kind != LineKind::event && problems.size() < kProblemsKept)
    problems.push_back({line, std::string(to_string(kind)), std::move(what)});
}

Result<LedgerEvent> Ledger::append(LedgerEvent event) const {
  KL_CHECK(check_event(event));
  event.ledger_schema_version = kLedgerSchemaVersion;
  if (event.created_at.empty()) event.created_at = utc_now();
  event.id = content_id(event);
  KL_TRY(const LockedFile file, LockedFile::open(path_, LedgerLock::exclusive));
  const int64_t size = file.size_bytes();
  char last = '\n';
  if (size > 0 && ::pread(file.fd(), &last, 1, size - 1) != 1)
    return ledger_error("read", path_, errno);
  std::string bytes = last == '\n' ? "" : "\n";
  bytes += ledger_line(event);
  bytes += '\n';

  errno = 0;
  ssize_t n;
  do n = ::write(file.fd(), bytes.data(), bytes.size());
  while (n < 0 && errno == EINTR);
  int code = n == static_cast<ssize_t>(bytes.size()) ? 0 : n < 0 ? errno : ENOSPC;
  if (code == 0 && ::fdatasync(file.fd()) != 0) code = errno;
  if (code == 0) return event;
  // Never acknowledged, so never kept.
  if (n > 0 && ::ftruncate(file.fd(), size) == 0) ::fdatasync(file.fd());
  return ledger_error("append to", path_, code);
}

Result<LedgerReading> Ledger::query(const LedgerFilter& filter) const {
  LedgerReading reading;
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return reading;
  KL_TRY(LockedFile file, LockedFile::open(path_, LedgerLock::shared));
  file.unlock();  // lines are only ever added behind the size seen under the lock
  std::vector<Part> parts(scan_parts(file.size_bytes()));
  int64_t line_count = 1;
  KL_CHECK(scan_lines(
      file.fd(), file.size_bytes(), parts.size(),
      [&](size_t part, const ScannedLine& line) { parts[part].look_at(filter, line); },
      [&](size_t part, int64_t lines) {
        parts[part].first_line = line_count;
        line_count += lines;
      }));

  std::vector<Match> matches;
  std::vector<std::pair<LineKind, LedgerProblem>> problems;
  for (auto& part : parts) {
    reading.health.lines += part.lines;
    for (auto& match : part.matches) {
      match.line += part.first_line;
      matches.push_back(match);
    }
    for (auto& [kind, problem] : part.problems) {
      problem.line += part.first_line;
      problems.emplace_back(kind, std::move(problem));
    }
  }
  // With a limit, parse from the end until enough events were found.
  std::vector<std::vector<Parsed>> batches;
  size_t end = matches.size(), found = 0;
  while (end > 0 && (filter.newest == 0 || found < filter.newest)) {
    const size_t take = filter.newest == 0 ? end : std::min(end, filter.newest - found);
    const auto first = matches.begin() + static_cast<ptrdiff_t>(end - take);
    batches.push_back(parse_matches(file.fd(), {first, first + static_cast<ptrdiff_t>(take)}));
    end -= take;
    for (auto& [line, number] : batches.back()) {
      if (line.kind != LineKind::event)
        problems.push_back({line.kind, {number, {}, std::move(line.what)}});
      found += line.kind == LineKind::event && kl::matches(filter, line.event);
    }
  }
  reading.events.reserve(found);
  for (auto batch = batches.rbegin(); batch != batches.rend(); ++batch) {
    for (auto& [line, number] : *batch) {
      if (line.kind != LineKind::event || !kl::matches(filter, line.event)) continue;
      reading.health.unidentified += !line.event.identified();
      reading.events.push_back(std::move(line.event));
    }
  }
  std::sort(problems.begin(), problems.end(),
            [](const auto& a, const auto& b) { return a.second.line < b.second.line; });
  for (auto& [kind, problem] : problems)
    reading.health.add(kind, problem.line, std::move(problem.what));
  return reading;
}

}  // namespace kl
