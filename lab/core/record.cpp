#include <lab/core/record.hpp>

#include <lab/core/clock.hpp>

namespace kl {

void stamp_record(RecordHeader& header, std::string_view schema) {
  header.schema = schema;
  header.created_at = utc_now();
  header.lab_version = kLabVersion;
}

}  // namespace kl
