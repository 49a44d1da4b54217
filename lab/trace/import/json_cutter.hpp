// Cuts a JSON text of any size into the parts that are wanted, and holds no more than one of them at a time.
#pragma once

#include <lab/trace/import/byte_stream.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace kl::trace {

enum class Cut { skip, enter, take };

struct JsonParts {
  // What to do with the value at `path`: "" is the whole, "/traceEvents" a member of it, "/traceEvents/*" any element
  // of that. Asked once for all the elements of an array.
  std::function<Cut(std::string_view path)> choose;
  // A value that was taken, its text whole.
  std::function<void(std::string_view path, std::string_view text)> part;
};

// Every part up to the end of the text, or up to where it breaks: then why and at which byte, else empty.
std::string cut_json(ByteStream& bytes, const JsonParts& parts);

}  // namespace kl::trace
