// Elements in order of drawing; numbers with two decimals, so that equal input gives equal text.

#include "tools/support/svg.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "fmt/format.h"

namespace coppice {
namespace {

// Bytes of the character of UTF-8 that `text` begins with; 0 if it begins with none.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t bytes = byte(0) < 0x80             ? 1
                       : (byte(0) & 0xE0) == 0xC0 ? 2
                       : (byte(0) & 0xF0) == 0xE0 ? 3
                       : (byte(0) & 0xF8) == 0xF0 ? 4
                                                  : 0;
  if (bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Neither longer than need be, nor half of a pair, nor what is no character of XML.
  const int second = bytes > 1 ? byte(1) : 0;
  if (bytes == 2 && byte(0) < 0xC2) return 0;
  if (byte(0) == 0xE0 && second < 0xA0) return 0;
  if (byte(0) == 0xED && second > 0x9F) return 0;
  if (byte(0) == 0xEF && second == 0xBF && byte(2) > 0xBD) return 0;
  if (byte(0) == 0xF0 && second < 0x90) return 0;
  if (byte(0) == 0xF4 && second > 0x8F) return 0;
  return byte(0) > 0xF4 ? 0 : bytes;
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (size_t bytes = 0; !text.empty(); text.remove_prefix(std::max<size_t>(bytes, 1))) {
    bytes = CharacterBytes(text);
    if (bytes != 1) {
      escaped += bytes == 0 ? std::string_view("?") : text.substr(0, bytes);
      continue;
    }
    const char c = text.front();
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
