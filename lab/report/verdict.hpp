// The verdict line every report ends with.
#pragma once

#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>
#include <lab/report/style.hpp>

#include <string>

namespace kl {

// "verdict  improved: 23.4 % less seam time …" and, where there is one, the remedy.
std::string verdict_line(const Style& style, Status status, std::string_view sentence,
                         std::string_view remedy = {});
// The first lines the compiler said about the kernel, or nothing.
std::string compile_lines(const Style& style, const CompileReport& report);

}  // namespace kl
