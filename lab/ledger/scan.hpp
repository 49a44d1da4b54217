// Walking the lines of a big file in parallel, in bounded memory.
#pragma once

#include <lab/core/result.hpp>

#include <functional>
#include <string_view>

namespace kl {

struct ScannedLine {
  int64_t offset_bytes = 0;
  int64_t line = 0;  // counted from 0 inside the part
  std::string_view text;
};

// Splits [0, size) into `parts` at line ends and calls on_line(part, line) for every line that is
// not empty, in order inside a part; parts run on threads of their own. on_part(part, line_count)
// tells the lines of each part, empty ones too, so that line numbers can be made whole.
Outcome scan_lines(int fd, int64_t size_bytes, size_t parts,
                   const std::function<void(size_t, const ScannedLine&)>& on_line,
                   const std::function<void(size_t, int64_t)>& on_part);

// One thread for small files, else what this process may use, at most four.
size_t scan_parts(int64_t size_bytes);

}  // namespace kl
