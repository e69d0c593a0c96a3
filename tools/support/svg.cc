// Elements in order of drawing; numbers with two decimals, so that equal input gives equal text.

#include "tools/support/svg.h"

#include <array>

#include "fmt/format.h"

namespace coppice {
namespace {

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return escaped;
}

// The beginning of `text`, cut between two characters of UTF-8.
std::string Shortened(std::string_view text) {
  if (text.size() <= Svg::kTipBytesMax) return std::string(text);
  size_t end = Svg::kTipBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title)
    : body_(fmt::format("<title>{}</title>\n", Escaped(title))), width_(width), height_(height) {}

void Svg::Rectangle(
    double x, double y, double width, double height, std::string_view style, std::string_view tip) {
  body_ += fmt::format(R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" style="{}")",
                       x, y, width, height, Escaped(style));
  body_ +=
      tip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", Escaped(Shortened(tip)));
}

void Svg::Line(double x1, double y1, double x2, double y2, std::string_view style) {
  body_ += fmt::format(R"(<line x1="{:.2f}" y1="{:.2f}" x2="{:.2f}" y2="{:.2f}" style="{}"/>)"
                       "\n",
                       x1, y1, x2, y2, Escaped(style));
}

void Svg::Text(double x, double y, std::string_view text, std::string_view anchor, double pixels) {
  body_ +=
      fmt::format(R"(<text x="{:.2f}" y="{:.2f}" text-anchor="{}" font-size="{:.0f}">{}</text>)"
                  "\n",
                  x, y, anchor, pixels, Escaped(text));
}

std::string Svg::Finish() const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
      R"(viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif">)"
      "\n"
      R"(<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" )"
      R"svg(patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" )svg"
      R"(style="stroke:#000;stroke-width:1.5;stroke-opacity:0.45"/></pattern></defs>)"
      "\n"
      R"(<rect width="100%" height="100%" style="fill:#fff"/>)"
      "\n{2}</svg>\n",
      width_, height_, body_);
}

const char* PaletteColour(int index) {
  static constexpr std::array kColours = {"#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2",
                                          "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac"};
  return kColours[static_cast<size_t>(index) % kColours.size()];
}

}  // namespace coppice
