// Which hashes bind which evidence, and whether an event still speaks about what is there now.
#pragma once

#include <lab/ledger/event.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

// One hash of an Identity: its name, where it is, and what to say when it differs.
struct IdentityField {
  std::string_view name;
  std::string Identity::*member;
  std::string_view changed;
};

// The fields that entered an event of this type; the table of docs/ledger.md.
struct IdentityUse {
  std::string_view event_type;
  std::vector<IdentityField> fields;
};
std::span<const IdentityUse> identity_table();
// Empty for an event type that no identity binds.
std::span<const IdentityField> identity_fields(std::string_view event_type);

// Why an event is stale against what is there now; empty: it is current. A field that is empty in
// `now` is not compared (the caller does not know it); one that only the event lacks is a reason.
std::vector<std::string> stale_reasons(const LedgerEvent& event, const Identity& now);
bool is_current(const LedgerEvent& event, const Identity& now);

}  // namespace kl
