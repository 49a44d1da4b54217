#include <lab/report/svg.hpp>

#include <lab/report/markup.hpp>

#include <fmt/format.h>

#include <cmath>

namespace kl::svg {
namespace {

// 1, 2 or 5 times a power of ten, at least `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

}  // namespace

Scale Scale::linear(double from, double to, double at_from, double at_to) {
  Scale scale;
  scale.from_ = from;
  scale.to_ = to > from ? to : from + 1;
  scale.at_from_ = at_from;
  scale.at_to_ = at_to;
  return scale;
}

Scale Scale::logarithmic(double from, double to, double at_from, double at_to) {
  Scale scale = linear(from, to > from ? to : from * 10, at_from, at_to);
  scale.logarithmic_ = true;
  return scale;
}

double Scale::operator()(double value) const {
  const double part = logarithmic_ ? std::log(value / from_) / std::log(to_ / from_) : (value - from_) / (to_ - from_);
  return at_from_ + part * (at_to_ - at_from_);
}

std::vector<double> Scale::ticks(int most) const {
  std::vector<double> ticks;
  if (!logarithmic_) {
    const double step = round_step((to_ - from_) / most);
    const auto last = static_cast<int64_t>(std::floor(to_ / step + 1e-9));
    for (auto i = static_cast<int64_t>(std::ceil(from_ / step - 1e-9)); i <= last; ++i)
      ticks.push_back(static_cast<double>(i) * step);
    return ticks;
  }
  const bool powers_alone = to_ / from_ >= 100;
  for (double power = std::pow(10.0, std::floor(std::log10(from_))); power <= to_; power *= 10)
    for (const double factor : {1.0, 2.0, 5.0})
      if ((factor == 1 || !powers_alone) && holds(factor * power)) ticks.push_back(factor * power);
  return ticks;
}

void Canvas::shape(std::string_view tag, std::string_view attributes, std::string_view kind, std::string_view words) {
  body_ += fmt::format("<{} {} class=\"{}\"", tag, attributes, kind);
  body_ += words.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escape_markup(words), tag);
}

void Canvas::line(Point from, Point to, std::string_view kind, std::string_view words) {
  shape("line", fmt::format("x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"", from.x, from.y, to.x, to.y), kind, words);
}

void Canvas::bar(Point corner, double width, double height, std::string_view kind, std::string_view words) {
  shape("rect", fmt::format("x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", corner.x, corner.y, width, height), kind,
        words);
}

void Canvas::dot(Point centre, double radius, std::string_view kind, std::string_view words) {
  shape("circle", fmt::format("cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"", centre.x, centre.y, radius), kind, words);
}

void Canvas::specks(const std::vector<Point>& centres, std::string_view kind) {
  if (centres.empty()) return;
  std::string path;
  for (const Point& at : centres) path += fmt::format("M{:.1f} {:.1f}h0", at.x, at.y);
  shape("path", fmt::format("d=\"{}\"", path), kind, {});
}

void Canvas::text(Point at, std::string_view text, std::string_view kind, Anchor anchor) {
  const char* where = anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", at.x, at.y, where, kind,
                       escape_markup(text));
}

std::string Canvas::element(std::string_view words) const {
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n", width_, height_,
                     escape_markup(words), body_);
}

}  // namespace kl::svg
