// Small drawings as inline SVG. Colours and fonts come from the page's style sheet by class.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kl::svg {

// Values onto a length of the drawing.
class Scale {
 public:
  static Scale linear(double from, double to, double at_from, double at_to);
  static Scale logarithmic(double from, double to, double at_from, double at_to);  // from, to > 0

  double operator()(double value) const;
  bool holds(double value) const { return value >= from_ && value <= to_; }
  // Round values inside it: 1, 2 or 5 times a power of ten; of a logarithmic one of two decades or
  // more the powers alone.
  std::vector<double> ticks(int most = 6) const;
  double start() const { return at_from_; }
  double end() const { return at_to_; }

 private:
  double from_ = 0, to_ = 1, at_from_ = 0, at_to_ = 1;
  bool logarithmic_ = false;
};

struct Point {
  double x = 0, y = 0;
};

// `kind` is a class of the style sheet, `words` what pointing at a mark shows.
class Canvas {
 public:
  Canvas(double width, double height) : width_(width), height_(height) {}

  void line(Point from, Point to, std::string_view kind, std::string_view words = {});
  void bar(Point corner, double width, double height, std::string_view kind, std::string_view words = {});
  void dot(Point centre, double radius, std::string_view kind, std::string_view words = {});
  void specks(const std::vector<Point>& centres, std::string_view kind);  // many small dots, one element
  enum class Anchor : uint8_t { start, middle, end };
  void text(Point at, std::string_view text, std::string_view kind = "label", Anchor anchor = Anchor::start);

  // The whole element; `words` is its text alternative.
  std::string element(std::string_view words) const;

 private:
  void shape(std::string_view tag, std::string_view attributes, std::string_view kind, std::string_view words);
  double width_, height_;
  std::string body_;
};

}  // namespace kl::svg
