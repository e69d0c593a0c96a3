// Goal: a picture is well-formed SVG that says what it was given. Method: the text of small
// pictures.

#include "tools/support/svg.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coppice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(SvgTest, IsOneElementOfTheGivenSizeOnAWhiteGround) {
  const std::string text = Svg(640, 480, "a plan").Finish();
  EXPECT_THAT(text, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" "
                               "height=\"480\" viewBox=\"0 0 640 480\""));
  EXPECT_THAT(text, HasSubstr("<rect width=\"100%\" height=\"100%\" style=\"fill:#fff\"/>"));
  EXPECT_THAT(text, HasSubstr("<title>a plan</title>"));
  EXPECT_THAT(text, EndsWith("</svg>\n"));
}

TEST(SvgTest, ARectangleHasPlaceStyleAndTip) {
  Svg svg(10, 10, "");
  svg.Rectangle(1, 2.5, 3.14159, 4, "fill:#123", "a tip");
  EXPECT_THAT(svg.Finish(), HasSubstr("<rect x=\"1.00\" y=\"2.50\" width=\"3.14\" height=\"4.00\" "
                                      "style=\"fill:#123\"><title>a tip</title></rect>"));
}

TEST(SvgTest, ARectangleWithoutATipHasNoTitle) {
  Svg svg(10, 10, "");
  svg.Rectangle(1, 2, 3, 4, "fill:#123");
  EXPECT_THAT(svg.Finish(), HasSubstr("style=\"fill:#123\"/>"));
}

TEST(SvgTest, ALineHasTwoEnds) {
  Svg svg(10, 10, "");
  svg.Line(1, 2, 3, 4, "stroke:#000");
  EXPECT_THAT(svg.Finish(), HasSubstr("<line x1=\"1.00\" y1=\"2.00\" x2=\"3.00\" y2=\"4.00\" "
                                      "style=\"stroke:#000\"/>"));
}

TEST(SvgTest, TextHasAnAnchorAndASize) {
  Svg svg(10, 10, "");
  svg.Text(1, 2, "here", "end", 16);
  EXPECT_THAT(svg.Finish(), HasSubstr("<text x=\"1.00\" y=\"2.00\" text-anchor=\"end\" "
                                      "font-size=\"16\">here</text>"));
}

TEST(SvgTest, TextThatLooksLikeMarkupStaysText) {
  Svg svg(10, 10, "<a&b>");
  svg.Rectangle(0, 0, 1, 1, "fill:\"", "<script>");
  svg.Text(0, 0, std::string("x\n\x01y\"") + "</text>");
  const std::string text = svg.Finish();
  EXPECT_THAT(text, HasSubstr("<title>&lt;a&amp;b&gt;</title>"));
  EXPECT_THAT(text, HasSubstr("style=\"fill:&quot;\""));
  EXPECT_THAT(text, HasSubstr(">x  y&quot;&lt;/text&gt;</text>"));
  EXPECT_THAT(text, Not(HasSubstr("<script>")));
}

TEST(SvgTest, BytesThatAreNoCharacterBecomeQuestionMarks) {
  Svg svg(10, 10, "t");
  const std::string whole = "\u00e9 \u20ac \U0001f600";
  svg.Text(1, 2, whole);
  svg.Text(1, 2,
           "a\xff"
           "b\xc3");
  svg.Text(1, 2, "\xc0\x80|\xed\xa0\x80|\xef\xbf\xbe|\xf4\x90\x80\x80");
  EXPECT_THAT(svg.Finish(), HasSubstr(whole));
  EXPECT_THAT(svg.Finish(), HasSubstr(">a?b?<"));
  const auto marks = [](size_t count) { return std::string(count, '?'); };
  EXPECT_THAT(svg.Finish(),
              HasSubstr(">" + marks(2) + "|" + marks(3) + "|" + marks(3) + "|" + marks(4) + "<"));
}

TEST(SvgTest, OfALongTipOnlyTheBeginningShows) {
  Svg svg(10, 10, "");
  svg.Rectangle(0, 0, 1, 1, "fill:#123", std::string(Svg::kTipBytesMax, 'a'));
  svg.Rectangle(0, 0, 1, 1, "fill:#123", std::string(1'000'000, 'b'));
  svg.Rectangle(0, 0, 1, 1, "fill:#123", std::string(Svg::kTipBytesMax - 1, 'c') + "\u00e9");
  const std::string text = svg.Finish();
  EXPECT_THAT(text, HasSubstr(">" + std::string(Svg::kTipBytesMax, 'a') + "</title>"));
  EXPECT_THAT(text, HasSubstr(">" + std::string(Svg::kTipBytesMax, 'b') + "...</title>"));
  EXPECT_THAT(text, HasSubstr(">" + std::string(Svg::kTipBytesMax - 1, 'c') + "...</title>"));
}

TEST(SvgTest, TheHatchThatStylesMayNameIsDefined) {
  EXPECT_THAT(Svg(10, 10, "").Finish(), HasSubstr("<pattern id=\"hatch\""));
}

TEST(SvgTest, ElementsAreInOrderOfDrawing) {
  Svg svg(10, 10, "");
  svg.Text(0, 0, "first");
  svg.Text(0, 0, "second");
  const std::string text = svg.Finish();
  EXPECT_LT(text.find("first"), text.find("second"));
}

TEST(SvgTest, TenColoursDifferAndRepeat) {
  std::set<std::string> colours;
  for (int i = 0; i < 10; ++i)
    colours.insert(PaletteColour(i));
  EXPECT_EQ(colours.size(), 10U);
  EXPECT_STREQ(PaletteColour(13), PaletteColour(3));
}

}  // namespace
}  // namespace coppice
