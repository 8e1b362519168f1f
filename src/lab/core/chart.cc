#include "lab/core/chart.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

#include "lab/core/chart_grid.h"

namespace kvick::lab {
namespace {

constexpr double kWidth = 720, kHeight = 400, kLeft = 76, kRight = 190, kTop = 40, kBottom = 56;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
// Told apart by people with any kind of colour vision (Okabe and Ito 2008), lightened where dark
// pages would swallow them.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                    "#56b4e9", "#8c8c8c", "#b2a100", "#9467bd", "#a65628"};

const char* colour(size_t i) { return kColours[i % std::size(kColours)]; }

// One axis: values to pixels.
struct Axis {
  double low = 0, high = 1;  // of the values, or of their logarithms
  bool logarithmic = false;
  double begin = 0, end = 0;  // pixels

  double at(double value) const {
    const double x = logarithmic ? std::log2(value) : value;
    return begin + (x - low) / (high - low) * (end - begin);
  }
};

// 1, 2 or 5 times a power of ten, so that about five fit.
double nice_step(double range) {
  const double rough = range / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

std::string number(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::vector<double> ticks_of(const Axis& axis) {
  std::vector<double> ticks;
  // Of less than three octaves a tick an octave would be too few.
  if (axis.logarithmic && axis.high - axis.low < 3) {
    Axis linear = {.low = std::exp2(axis.low), .high = std::exp2(axis.high)};
    return ticks_of(linear);
  }
  if (axis.logarithmic) {
    const double step = std::max(1.0, std::ceil((axis.high - axis.low) / 10));
    for (double x = std::ceil(axis.low); x <= axis.high + 1e-9; x += step)
      ticks.push_back(std::exp2(x));
    return ticks;
  }
  const double step = nice_step(axis.high - axis.low);
  for (double x = std::ceil(axis.low / step) * step; x <= axis.high + step * 1e-9; x += step)
    ticks.push_back(std::abs(x) < step * 1e-9 ? 0 : x);
  return ticks;
}

Axis axis_over(const std::vector<double>& values, bool logarithmic, bool from_zero) {
  Axis axis;
  axis.logarithmic = logarithmic;
  if (values.empty()) return axis;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  axis.low = logarithmic ? std::log2(*low) : from_zero ? std::min(0.0, *low) : *low;
  axis.high = logarithmic ? std::log2(*high) : *high;
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  if (logarithmic || !from_zero) return axis;
  // Up to a whole step, so that the highest value has a line above it.
  const double step = nice_step(axis.high - axis.low);
  axis.high = std::ceil(axis.high / step - 1e-9) * step;
  return axis;
}

std::string y_axis(const Chart& chart, const Axis& y) {
  std::string svg;
  for (const double tick : ticks_of(y))
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kLeft + kPlotWidth, y.at(tick), kLeft - 6, y.at(tick) + 4, number(tick));
  return svg + fmt::format(
                   "<text transform=\"translate(16 {:.0f}) rotate(-90)\" "
                   "text-anchor=\"middle\">{}</text>\n",
                   kTop + kPlotHeight / 2, escape_xml(chart.y_label));
}

constexpr double kLetter = 6.5;  // pixels of the font, about

size_t longest_bar(const Chart& chart) {
  size_t longest = 0;
  for (const std::string& name : chart.bars) longest = std::max(longest, name.size());
  return longest;
}

double slot_of(const Chart& chart) {
  return kPlotWidth / static_cast<double>(std::max<size_t>(1, chart.bars.size()));
}

// What names of bars that are turned by 30 degrees take below the plot, beyond a row; 0: they need
// not be, for there is room for them in two rows.
double turned_height(const Chart& chart) {
  const double longest = kLetter * static_cast<double>(longest_bar(chart));
  return longest > 2 * slot_of(chart) ? longest / 2 : 0;
}

std::string x_label(const Chart& chart) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
                     kLeft + kPlotWidth / 2, kHeight - 10 + turned_height(chart),
                     escape_xml(chart.x_label));
}

std::string legend(const Chart& chart) {
  std::string svg;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const double at = kTop + 10 + 18.0 * static_cast<double>(i);
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"{3}\" stroke-width=\"3\"{4}/>"
        "<text x=\"{5}\" y=\"{6}\">{7}</text>\n",
        kLeft + kPlotWidth + 12, kLeft + kPlotWidth + 34, at, colour(i),
        chart.series[i].dashed ? " stroke-dasharray=\"5 4\"" : "", kLeft + kPlotWidth + 40, at + 4,
        escape_xml(chart.series[i].name));
  }
  return svg;
}

// With room for the longest name of the legend, and of a bar if they are turned.
double width_of(const Chart& chart) {
  double width = kWidth;
  if (turned_height(chart) > 0)
    width = std::max(width, kLeft + kPlotWidth - slot_of(chart) / 2 +
                                kLetter * static_cast<double>(longest_bar(chart)));
  for (const Series& series : chart.series)
    width = std::max(width,
                     kLeft + kPlotWidth + 40 + kLetter * static_cast<double>(series.name.size()));
  return width;
}

std::string lines_of(const Chart& chart) {
  std::vector<double> xs, ys;
  for (const Series& series : chart.series)
    for (const Point& point : series.points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
  Axis x = axis_over(xs, chart.log_x, false), y = axis_over(ys, chart.log_y, true);
  x.begin = kLeft;
  x.end = kLeft + kPlotWidth;
  y.begin = kTop + kPlotHeight;
  y.end = kTop;
  std::string svg = y_axis(chart, y);
  for (const double tick : ticks_of(x))
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x.at(tick),
                       kTop + kPlotHeight + 18, number(tick));
  for (size_t i = 0; i < chart.series.size(); ++i) {
    std::string path, dots;
    for (const Point& point : chart.series[i].points) {
      path +=
          fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x.at(point.x), y.at(point.y));
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>",
                          x.at(point.x), y.at(point.y), colour(i));
    }
    const bool dashed = chart.series[i].dashed;
    svg +=
        fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>{}\n", path,
                    colour(i), dashed ? " stroke-dasharray=\"5 4\"" : "", dashed ? "" : dots);
  }
  return svg;
}

// Names in two rows in turn where one has no room for them: they may be twice as long. Those that
// are longer still are turned.
std::string names_of(const Chart& chart, double slot) {
  const bool turned = turned_height(chart) > 0;
  const bool two_rows = !turned && kLetter * static_cast<double>(longest_bar(chart)) > slot;
  std::string svg;
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const double x = kLeft + slot * (static_cast<double>(i) + 0.5);
    const double y = kTop + kPlotHeight + 15 + (two_rows && i % 2 != 0 ? 14 : 0);
    svg += fmt::format(
        "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
        turned ? "start" : "middle",
        turned ? fmt::format(" transform=\"rotate(30 {:.1f} {})\"", x, y) : std::string(),
        escape_xml(chart.bars[i]));
  }
  return svg;
}

std::string bars_of(const Chart& chart) {
  std::vector<double> tops(chart.bars.size());
  for (const Series& series : chart.series)
    for (size_t i = 0; i < tops.size() && i < series.points.size(); ++i)
      tops[i] =
          chart.side_by_side ? std::max(tops[i], series.points[i].y) : tops[i] + series.points[i].y;
  Axis y = axis_over(tops, false, true);
  y.low = 0;
  y.begin = kTop + kPlotHeight;
  y.end = kTop;
  std::string svg = y_axis(chart, y);
  const double slot = slot_of(chart);
  const double parts = chart.side_by_side ? static_cast<double>(chart.series.size()) : 1;
  const double width = slot * 0.7 / parts;
  std::vector<double> below(tops.size());
  for (size_t s = 0; s < chart.series.size(); ++s)
    for (size_t i = 0; i < tops.size() && i < chart.series[s].points.size(); ++i) {
      const double value = chart.series[s].points[i].y;
      const double left = slot * (static_cast<double>(i) + 0.15) +
                          (chart.side_by_side ? width * static_cast<double>(s) : 0);
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
          kLeft + left, y.at(below[i] + value), width, y.at(below[i]) - y.at(below[i] + value),
          colour(s));
      if (!chart.side_by_side) below[i] += value;
    }
  return svg + names_of(chart, slot);
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string head_of(const Chart& chart, double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" aria-label=\"{2}\">\n<style>\n"
      "  svg {{ background: #fff; font: 12px sans-serif; max-width: 100%; height: auto; }}\n"
      "  text {{ fill: #222; }} .grid {{ stroke: #ddd; }} .title {{ font-size: 15px; }}\n"
      "  @media (prefers-color-scheme: dark) {{ svg {{ background: #16181c; }}\n"
      "    text {{ fill: #ddd; }} .grid {{ stroke: #3a3d44; }} }}\n</style>\n"
      "<text class=\"title\" x=\"{3}\" y=\"22\">{2}</text>\n",
      width, height, escape_xml(chart.title), kLeft);
}

std::string svg_of(const Chart& chart) {
  if (!chart.rows.empty()) return grids_of(chart);
  return head_of(chart, width_of(chart), kHeight + turned_height(chart)) +
         (chart.bars.empty() ? lines_of(chart) : bars_of(chart)) + x_label(chart) + legend(chart) +
         "</svg>\n";
}

}  // namespace kvick::lab
