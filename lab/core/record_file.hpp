// Records that a verb wrote to a file and another verb reads.
#pragma once

#include <lab/core/files.hpp>
#include <lab/core/record.hpp>

#include <span>

namespace kl {

// Of a record whose type is not known yet: what each of them begins with, and the whole of it.
struct RecordFile {
  fs::path file;
  RecordHeader header;
  Json json;
};

// A record of one of `schemas`. Errors (usage, with `remedy`) name the file and what is wrong with
// it: missing, truncated, no record, a record of another type or of a later version, a header
// field of another type.
Result<RecordFile> read_record_file(const fs::path& file, std::span<const std::string_view> schemas, const std::string& remedy);

// The whole of one whose header says that it is a Record.
template <class Record>
Result<Record> record_in(const RecordFile& read, const std::string& remedy) {
  auto record = from_json<Record>(read.json);
  if (!record.ok()) return make_error(Status::usage, read.file.string() + ": " + record.error().what, remedy);
  return record;
}

// A file that must be of one known type.
template <class Record>
Result<Record> read_record(const fs::path& file, const std::string& remedy) {
  const std::string_view schema = Record::kSchema;
  KL_TRY(const RecordFile read, read_record_file(file, {&schema, 1}, remedy));
  return record_in<Record>(read, remedy);
}

}  // namespace kl
