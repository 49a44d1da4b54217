#include <lab/ledger/event.hpp>

#include <lab/core/hash.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace kl {
namespace {

std::string line_without_id(Json json) {
  json.erase("id");
  return dump_line(json);
}

// Version 1 writers left null where version 2 has an empty string.
void drop_nulls(Json& json) {
  for (auto it = json.begin(); it != json.end();)
    it = it->is_null() ? json.erase(it) : std::next(it);
}

// A line of the lab's own layout is hashed as it stands; any other is brought into that layout
// first.
bool matches_id(std::string_view line, const std::string& id, const Json& json) {
  const std::string member = "\"id\":\"" + id + "\",";
  if (const size_t at = line.rfind(member); at != std::string_view::npos) {
    std::string rest(line.substr(0, at));
    rest += line.substr(at + member.size());
    if (sha256_hex(rest) == id) return true;
  }
  return sha256_hex(line_without_id(json)) == id;
}

ParsedLine problem(LineKind kind, std::string what) { return {kind, {}, std::move(what)}; }

// Reads a line from its end: the keys are sorted, so what is filtered by comes after `details`.
class Backward {
 public:
  explicit Backward(std::string_view line) : line_(line), end_(line.size()) {}

  bool literal(std::string_view text) {
    if (end_ < text.size() || line_.compare(end_ - text.size(), text.size(), text) != 0)
      return false;
    end_ -= text.size();
    return true;
  }
  // A plain string with its quotes; one with an escape needs a real parser.
  bool string(std::string_view& value) {
    if (!literal("\"")) return false;
    const auto* open = static_cast<const char*>(::memrchr(line_.data(), '"', end_));
    if (open == nullptr) return false;
    const auto begin = static_cast<size_t>(open - line_.data()) + 1;
    value = line_.substr(begin, end_ - begin);
    if (value.find('\\') != std::string_view::npos) return false;
    if (begin >= 2 && line_[begin - 2] == '\\') return false;
    end_ = begin - 1;
    return true;
  }
  // A number, true, false or null: everything back to the colon.
  bool bare(std::string_view& value) {
    const auto* colon = static_cast<const char*>(::memrchr(line_.data(), ':', end_));
    if (colon == nullptr) return false;
    const auto begin = static_cast<size_t>(colon - line_.data()) + 1;
    value = line_.substr(begin, end_ - begin);
    end_ = begin;
    return !value.empty() && value.size() <= 32 && value.find('"') == std::string_view::npos;
  }

 private:
  std::string_view line_;
  size_t end_;
};

}  // namespace

std::span<const std::string> ledger_event_types() {
  static const std::array<std::string, 12> types = {
      "bench",        "verify",       "capture",        "trace-profile",     "auto-review",
      "trace-review", "deep-profile", "integration-ab", "integration-suite", "calibration",
      "promotion",    "rejection"};
  return types;
}

std::string_view to_string(LineKind kind) {
  switch (kind) {
    case LineKind::event:
      return "event";
    case LineKind::torn:
      return "torn";
    case LineKind::corrupt:
      return "corrupt";
    case LineKind::altered:
      return "altered";
    case LineKind::unknown_version:
      return "unknown-version";
  }
  return "corrupt";
}

std::string content_id(const LedgerEvent& event) {
  return sha256_hex(line_without_id(to_json(event)));
}

std::string ledger_line(const LedgerEvent& event) { return dump_line(to_json(event)); }

ParsedLine parse_ledger_line(std::string_view line) {
  if (line.empty() || line.front() != '{' || line.back() != '}')
    return problem(LineKind::torn, "the line is not one whole JSON object");
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return problem(LineKind::corrupt, "the line is not JSON");
  const auto version = json.find("ledger_schema_version");
  if (version == json.end() || !version->is_number_integer())
    return problem(LineKind::corrupt, "the line has no ledger_schema_version");
  const auto number = version->get<int64_t>();
  if (number < 1 || number > kLedgerSchemaVersion)
    return problem(LineKind::unknown_version, fmt::format("ledger_schema_version is {}", number));
  if (number == 1) {
    drop_nulls(json);
    for (const auto* key : {"id", "identity", "git_dirty"}) json.erase(key);
  }
  auto event = from_json<LedgerEvent>(json);
  if (!event.ok()) return problem(LineKind::corrupt, event.error().what);
  if (event->event_type.empty()) return problem(LineKind::corrupt, "the line has no event_type");
  if (number >= 2 && !matches_id(line, event->id, json))
    return problem(LineKind::altered, "the line is not what its id was made from");
  return {LineKind::event, std::move(*event), {}};
}

std::optional<LineFields> skim_ledger_line(std::string_view line) {
  if (!line.starts_with("{\"backend_family\":\"")) return std::nullopt;
  LineFields f;
  std::string_view unused;
  Backward b(line);
  const auto identity = [&](std::string_view separator, std::string_view key,
                            std::string_view& value) {
    return b.string(value) && b.literal(key) && b.literal(separator);
  };
  const bool plain =
      b.literal("}") && b.string(f.workspace) && b.literal(",\"workspace\":") &&
      b.string(f.target) && b.literal(",\"target\":") && b.string(f.status) &&
      b.literal(",\"status\":") && b.string(f.preset) && b.literal(",\"preset\":") &&
      b.bare(unused) && b.literal(",\"metric_value\":") && b.string(unused) &&
      b.literal(",\"metric_name\":") && b.bare(f.version) &&
      b.literal(",\"ledger_schema_version\":") && b.literal("}") &&
      identity(",", "\"trainer\":", unused) && identity(",", "\"seams\":", unused) &&
      identity(",", "\"kernel\":", f.kernel) && identity(",", "\"harness\":", unused) &&
      identity(",", "\"flags\":", unused) &&
      identity(",", "\"fingerprint_class\":", f.fingerprint_class) &&
      identity(",", "\"case_plan\":", unused) && identity("{", "\"baseline\":", unused) &&
      b.literal(",\"identity\":") && b.string(unused) && b.literal(",\"id\":") && b.bare(unused) &&
      b.literal(",\"git_dirty\":") && b.string(unused) && b.literal(",\"git_commit\":") &&
      b.string(f.event_type) && b.literal(",\"event_type\":") && b.string(f.engine) &&
      b.literal(",\"engine\":");
  if (!plain) return std::nullopt;
  return f;
}

}  // namespace kl
