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
bool hashes_to(std::string_view line, std::string_view id) {
  const std::string member = fmt::format("\"id\":\"{}\",", id);
  const size_t at = line.rfind(member);
  if (at == std::string_view::npos) return false;
  thread_local std::string rest;  // reused: a fresh block of this size costs more than the hash
  rest.assign(line, 0, at).append(line, at + member.size());
  return sha256_hex(rest) == id;
}
bool matches_id(std::string_view line, const std::string& id, const Json& json) {
  return hashes_to(line, id) || sha256_hex(line_without_id(json)) == id;
}

constexpr std::string_view kOwnVersion = "2";
static_assert(kLedgerSchemaVersion == 2);

ParsedLine problem(LineKind kind, std::string what) { return {kind, {}, std::move(what)}; }

// Reads a line from its end: the keys are sorted, so what is filtered by comes after `details`.
class Backward {
 public:
  explicit Backward(std::string_view line) : line_(line), end_(line.size()) {}
  std::string_view unread() const { return line_.substr(0, end_); }

  template <size_t length>  // known when compiled, so that comparing takes a few instructions
  bool literal(const char (&text)[length]) {
    constexpr size_t size = length - 1;
    if (end_ < size || std::memcmp(line_.data() + end_ - size, text, size) != 0) return false;
    end_ -= size;
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

// A line of the lab's own layout and version whose id is right; nullopt: not that, or not plain, and
// the whole line has to be parsed. Two thirds of a line need no JSON parser.
std::optional<LedgerEvent> parse_own_layout(std::string_view line) {
  auto f = skim_line_end(line);
  if (!f || f->version != kOwnVersion || !skim_identity(*f)) return std::nullopt;
  const bool is_plain = std::none_of(f->unread.end(), line.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x80;
  });
  const bool dirty = f->git_dirty == "true";
  if (!is_plain || f->event_type.empty() || (!dirty && f->git_dirty != "false") ||
      !hashes_to(line, f->id))
    return std::nullopt;
  thread_local std::string text;
  text.assign(f->unread).append(",\"metric_value\":").append(f->metric_value).append("}");
  Json rest = Json::parse(text, nullptr, false);
  if (!rest.is_object() || rest.size() != 5 || !rest.contains("context") ||
      !rest.contains("details"))
    return std::nullopt;
  Json context = std::move(rest["context"]), details = std::move(rest["details"]);
  auto event = from_json<LedgerEvent>(rest);
  if (!event.ok()) return std::nullopt;
  event->context = std::move(context);
  event->details = std::move(details);
  event->id = f->id;
  event->git_commit = f->git_commit;
  event->git_dirty = dirty;
  event->engine = f->engine;
  event->target = f->target;
  event->workspace = f->workspace;
  event->event_type = f->event_type;
  event->status = f->status;
  event->metric_name = f->metric_name;
  event->preset = f->preset;
  const auto copy = [](std::string_view view) { return std::string(view); };
  event->identity = {copy(f->kernel),   copy(f->flags), copy(f->harness), copy(f->case_plan),
                     copy(f->baseline), copy(f->seams), copy(f->trainer), copy(f->fingerprint_class)};
  return std::move(*event);
}

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
  if (auto event = parse_own_layout(line)) return {LineKind::event, std::move(*event), {}};
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

std::optional<LineFields> skim_line_end(std::string_view line) {
  if (!line.starts_with("{\"backend_family\":\"")) return std::nullopt;
  LineFields f;
  Backward b(line);
  const bool plain =
      b.literal("}") && b.string(f.workspace) && b.literal(",\"workspace\":") &&
      b.string(f.target) && b.literal(",\"target\":") && b.string(f.status) &&
      b.literal(",\"status\":") && b.string(f.preset) && b.literal(",\"preset\":") &&
      b.bare(f.metric_value) && b.literal(",\"metric_value\":") && b.string(f.metric_name) &&
      b.literal(",\"metric_name\":") && b.bare(f.version) &&
      b.literal(",\"ledger_schema_version\":");
  if (!plain) return std::nullopt;
  f.unread = b.unread();
  return f;
}

bool skim_identity(LineFields& f) {
  Backward b(f.unread);
  const bool plain =
      b.literal("}") && b.string(f.trainer) && b.literal(",\"trainer\":") && b.string(f.seams) &&
      b.literal(",\"seams\":") && b.string(f.kernel) && b.literal(",\"kernel\":") &&
      b.string(f.harness) && b.literal(",\"harness\":") && b.string(f.flags) &&
      b.literal(",\"flags\":") && b.string(f.fingerprint_class) &&
      b.literal(",\"fingerprint_class\":") && b.string(f.case_plan) &&
      b.literal(",\"case_plan\":") && b.string(f.baseline) &&
      b.literal(",\"identity\":{\"baseline\":") && b.string(f.id) && b.literal(",\"id\":") &&
      b.bare(f.git_dirty) && b.literal(",\"git_dirty\":") && b.string(f.git_commit) &&
      b.literal(",\"git_commit\":") && b.string(f.event_type) && b.literal(",\"event_type\":") &&
      b.string(f.engine) && b.literal(",\"engine\":");
  f.unread = b.unread();
  return plain;
}

}  // namespace kl
