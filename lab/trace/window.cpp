#include <lab/trace/window.hpp>

#include <lab/trace/import/decimal.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace kl::trace {
namespace {

constexpr std::string_view kForms = "give steps (3:8) or times (0.5s:2s, 200ms:, :90us)";

Error usage(std::string what, std::string remedy = std::string(kForms)) {
  return make_error(Status::usage, std::move(what), std::move(remedy));
}

struct End {
  int64_t value = 0;
  bool time = false;
};

std::optional<End> end_of(std::string_view text) {
  struct Unit {
    std::string_view name;
    int places;  // decimal places to nanoseconds
  };
  for (const Unit& unit : {Unit{"ms", 6}, Unit{"us", 3}, Unit{"s", 9}}) {
    if (!text.ends_with(unit.name)) continue;
    const auto ns = scaled_decimal(text.substr(0, text.size() - unit.name.size()), unit.places);
    return ns && *ns >= 0 ? std::optional(End{*ns, true}) : std::nullopt;
  }
  const auto step = text.find('.') == std::string_view::npos ? scaled_decimal(text, 0) : std::nullopt;
  return step && *step > 0 ? std::optional(End{*step, false}) : std::nullopt;
}

// The steps that begin outside `kept` are ranges like any other from now on.
void keep_steps(TraceModel& model, const Span& kept) {
  for (Range& range : model.ranges)
    if (range.kind == RangeKind::step && (range.span.begin < kept.begin || range.span.begin > kept.end)) range.kind = RangeKind::user;
}

}  // namespace

Outcome cut_window(TraceModel& model, std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return usage(fmt::format("{} is no window", text));
  const std::string_view first = text.substr(0, colon), last = text.substr(colon + 1);
  const auto from = first.empty() ? std::optional(End{0, false}) : end_of(first);
  const auto to = last.empty() ? std::optional(End{INT64_MAX, false}) : end_of(last);
  if (!from || !to || (first.empty() && last.empty())) return usage(fmt::format("{} is no window", text));
  if (!first.empty() && !last.empty() && from->time != to->time) return usage(fmt::format("{} mixes a step with a time", text));
  if (from->value > to->value || (from->time && from->value == to->value)) return usage(fmt::format("{} ends before it begins", text));
  if (model.activities.empty()) return usage("the trace has no moments: no part of it can be chosen", "leave --window out");
  const std::vector<Range> steps = model.steps();
  const bool times = first.empty() ? to->time : from->time;
  if (!times) {
    const auto count = static_cast<int64_t>(steps.size());
    if (count == 0) return usage("the trace has no steps", "give times (0.5s:2s)");
    if (from->value > count) return usage(fmt::format("the trace has {} steps", count), fmt::format("name steps from 1 to {}", count));
    const auto nth = [&](int64_t place) { return steps[static_cast<size_t>(std::clamp<int64_t>(place, 1, count) - 1)].span.begin; };
    keep_steps(model, {nth(from->value), nth(to->value)});
    return {};
  }
  const Spans window = model.window();
  const int64_t begin = window.front().begin, length = window.back().end - begin;
  if (from->value >= length) return usage(fmt::format("the window is {:g} s long", static_cast<double>(length) * 1e-9), "choose a part of that");
  const Span chosen{begin + from->value, begin + std::min(to->value, length)};
  if (steps.empty()) {
    model.chosen = chosen;
    return {};
  }
  const auto first_in = std::find_if(steps.begin(), steps.end(), [&](const Range& s) { return s.span.begin >= chosen.begin; });
  auto behind = first_in;
  while (behind != steps.end() && behind->span.end <= chosen.end) ++behind;
  if (behind == first_in)
    return usage(fmt::format("no whole step lies in {}", text), fmt::format("the trace has {} steps: name them (1:{}), or a longer time", steps.size(), steps.size()));
  keep_steps(model, {first_in->span.begin, std::prev(behind)->span.begin});
  return {};
}

}  // namespace kl::trace
