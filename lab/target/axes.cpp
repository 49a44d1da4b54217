#include <lab/target/axes.hpp>

#include <fmt/format.h>

#include <charconv>

namespace kl {

Result<int64_t> axis_length(std::string_view text, const std::map<std::string, int64_t>& axes) {
  int64_t product = 1;
  while (!text.empty()) {
    const size_t star = text.find('*');
    const std::string_view factor = text.substr(0, star);
    int64_t length = 0;
    const auto parsed = std::from_chars(factor.data(), factor.data() + factor.size(), length);
    if (parsed.ec != std::errc{} || parsed.ptr != factor.data() + factor.size()) {
      const auto named = axes.find(std::string(factor));
      if (named == axes.end())
        return make_error(Status::unsupported_target,
                          fmt::format("axis \"{}\" has no length in this case", factor),
                          "give every axis a length in the case lists and the preset");
      length = named->second;
    }
    product *= length;
    text = star == std::string_view::npos ? std::string_view{} : text.substr(star + 1);
  }
  return product;
}

}  // namespace kl
