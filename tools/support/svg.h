// Writes a picture as SVG: text that any browser shows, equal for equal input.
//
// Units: pixels; (0, 0) is the upper left corner. Threads: one at a time per picture.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace coppice {

class Svg {
 public:
  static constexpr size_t kTipBytesMax = 240;

  // An empty picture of this size on a white ground. `title` is what a reader is told first.
  Svg(double width, double height, std::string_view title);

  // A rectangle. `style` is CSS ("fill:#4e79a7;stroke:#fff"; "fill:url(#hatch)" draws diagonal
  // lines over what lies below); `tip` shows when the pointer rests on it, empty: nothing. Of a tip
  // over kTipBytesMax only the beginning shows, so that a picture grows with what it draws.
  void Rectangle(double x,
                 double y,
                 double width,
                 double height,
                 std::string_view style,
                 std::string_view tip = {});
  void Line(double x1, double y1, double x2, double y2, std::string_view style);
  // `anchor` is "start", "middle" or "end": where x is in the text; y is its base line.
  void Text(double x,
            double y,
            std::string_view text,
            std::string_view anchor = "start",
            double pixels = 12);

  // The whole file. Ends in a newline.
  std::string Finish() const;

 private:
  std::string body_;
  double width_ = 0;
  double height_ = 0;
};

// A fill colour for the i-th of many things, easy to tell from its neighbours'; repeats after ten.
const char* PaletteColour(int index);

}  // namespace coppice
