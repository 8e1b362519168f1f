#include "lab/core/chart.h"

#include <gtest/gtest.h>

namespace kvick::lab {
namespace {

size_t count(const std::string& text, std::string_view what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Chart, DrawsADotForEachPointThatWasMeasuredAndALineForEachSeries) {
  const std::string svg =
      svg_of({.name = "c",
              .title = "a < b & c",
              .x_label = "x",
              .y_label = "y",
              .log_x = true,
              .series = {{.name = "measured", .points = {{1, 2}, {4, 3}, {16, 1}}},
                         {.name = "model", .points = {{1, 1}, {16, 2}}, .dashed = true}},
              .bars = {}});
  EXPECT_EQ(count(svg, "<circle"), 3U);
  EXPECT_EQ(count(svg, "<path"), 2U);
  EXPECT_EQ(count(svg, "stroke-dasharray"), 2U);  // the line and its sign
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Chart, IsAsWideAsItsLegend) {
  const auto width = [](const std::string& name) {
    const std::string svg = svg_of({.name = "c",
                                    .title = "t",
                                    .x_label = "x",
                                    .y_label = "y",
                                    .series = {{.name = name, .points = {{1, 2}}}},
                                    .bars = {}});
    return std::stod(svg.substr(svg.find("width=\"") + 7));
  };
  EXPECT_EQ(width("short"), width("b"));
  EXPECT_GT(width(std::string(40, 'm')), width("short") + 100);
}

TEST(Chart, DrawsAGridForEachSeriesOfAChartWithRows) {
  const std::string svg = svg_of({.name = "c",
                                  .title = "t",
                                  .x_label = "x",
                                  .y_label = "y",
                                  .series = {{.name = "a & b", .points = {{0, 1}, {0, 0.25}}},
                                             {.name = "two", .points = {{0, 0}, {0, 0}}}},
                                  .bars = {},
                                  .columns = {"1", "2"},
                                  .rows = {"depth"}});
  EXPECT_EQ(count(svg, "<rect"), 4U);
  EXPECT_EQ(count(svg, ">depth<"), 2U);
  EXPECT_NE(svg.find("a &amp; b"), std::string::npos);
  EXPECT_NE(svg.find(">25<"), std::string::npos);
  EXPECT_EQ(svg.find("<circle"), std::string::npos);
}

TEST(Chart, StacksTheBarsOfAllSeries) {
  const std::string svg = svg_of({.name = "c",
                                  .title = "t",
                                  .x_label = "x",
                                  .y_label = "y",
                                  .series = {{.name = "one", .points = {{0, 1}, {0, 2}}},
                                             {.name = "two", .points = {{0, 3}, {0, 2}}}},
                                  .bars = {"left", "right"}});
  EXPECT_EQ(count(svg, "<rect"), 4U);
  EXPECT_NE(svg.find(">left<"), std::string::npos);
}

TEST(Chart, PutsBarsSideBySideOnOneBase) {
  const std::string svg =
      svg_of({.name = "c",
              .title = "t",
              .x_label = "x",
              .y_label = "y",
              .series = {{.name = "one", .points = {{0, 4}}}, {.name = "two", .points = {{0, 4}}}},
              .bars = {"only"},
              .side_by_side = true});
  EXPECT_EQ(count(svg, "<rect"), 2U);
  // The same value is the same height, from the same top.
  const size_t first = svg.find("<rect"), second = svg.find("<rect", first + 1);
  const auto from_y = [&](size_t rect) {
    const size_t y = svg.find(" y=", rect), end = svg.find(" width", rect);
    return svg.substr(y, end - y);
  };
  EXPECT_EQ(from_y(first), from_y(second));
  EXPECT_NE(svg.substr(first, 12 + 4), svg.substr(second, 12 + 4));
}

TEST(Chart, PutsLongNamesOfBarsInTwoRows) {
  for (const bool are_long : {false, true}) {
    Chart chart = {.name = "c",
                   .title = "t",
                   .x_label = "x",
                   .y_label = "y",
                   .series = {{.name = "one", .points = {}}},
                   .bars = {}};
    for (int i = 0; i < 9; ++i) {
      chart.bars.push_back(are_long ? "mixed:old=q4" : "q4");
      chart.series[0].points.push_back({0, 1});
    }
    const std::string svg = svg_of(chart);
    const auto row_of = [&](size_t from) {
      const size_t name = svg.find(chart.bars[0] + "</text>", from);
      const size_t y = svg.rfind(" y=", name);
      return svg.substr(y, svg.find(" text-anchor", y) - y);
    };
    const size_t first = svg.find(chart.bars[0] + "</text>");
    EXPECT_EQ(row_of(first) != row_of(first + 1), are_long);
  }
}

TEST(Chart, TurnsNamesOfBarsThatAreLongerThanTwoRowsHaveRoomFor) {
  Chart chart = {.name = "c",
                 .title = "t",
                 .x_label = "x",
                 .y_label = "y",
                 .series = {{.name = "one", .points = {{0, 1}, {0, 2}, {0, 3}, {0, 4}}}},
                 .bars = {"a", "b", "c", "d"}};
  const auto height = [&] {
    const std::string svg = svg_of(chart);
    return std::stod(svg.substr(svg.find("height=\"") + 8));
  };
  const double plain = height();
  EXPECT_EQ(count(svg_of(chart), "rotate(30"), 0U);
  chart.bars[2] = "a name of more letters than twice the room of a bar";
  EXPECT_EQ(count(svg_of(chart), "rotate(30"), 4U);
  EXPECT_GT(height(), plain + 100);
}

TEST(Chart, EndsTheAxisOfValuesWithALine) {
  const std::string svg = svg_of({.name = "c",
                                  .title = "t",
                                  .x_label = "x",
                                  .y_label = "y",
                                  .series = {{.name = "one", .points = {{0, 9.7}, {1, 3}}}},
                                  .bars = {}});
  EXPECT_NE(svg.find(">10</text>"), std::string::npos);
}

TEST(Chart, OfNothingOrOfOnePointIsStillAChart) {
  for (const std::vector<Point>& points : {std::vector<Point>{}, std::vector<Point>{{2, 5}}}) {
    const std::string svg = svg_of({.name = "c",
                                    .title = "t",
                                    .x_label = "x",
                                    .y_label = "y",
                                    .series = {{.name = "one", .points = points}},
                                    .bars = {}});
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(count(svg, "</svg>"), 1U);
  }
}

}  // namespace
}  // namespace kvick::lab
