#include "lab/core/chart_grid.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvick::lab {
namespace {

constexpr double kCellWidth = 52, kCellHeight = 26, kTop = 44, kLeft = 60, kGap = 24;
constexpr double kName = 20, kAxis = 18;  // heights of what is above and below a grid
constexpr double kLabels = 30;            // of the axes' names, at the foot
constexpr size_t kInARow = 3;             // grids

struct Size {
  double width, height;
};

Size grid_size(const Chart& chart) {
  return {kCellWidth * static_cast<double>(chart.columns.size()),
          kCellHeight * static_cast<double>(chart.rows.size())};
}

// A share is a colour's strength and a number; the number is dark on weak and light on strong ones.
std::string cell_of(double left, double top, double share) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"#0072b2\" "
      "fill-opacity=\"{:.2f}\" class=\"grid\"/>"
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\"{}>{:.0f}</text>\n",
      left, top, kCellWidth, kCellHeight, 0.06 + 0.94 * std::clamp(share, 0.0, 1.0),
      left + kCellWidth / 2, top + kCellHeight / 2 + 4, share > 0.5 ? " style=\"fill: #fff\"" : "",
      100 * share);
}

std::string grid_of(const Chart& chart, const Series& series, double left, double top) {
  std::string svg = fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", left, top - 6,
                                escape_xml(series.name));
  for (size_t i = 0; i < series.points.size(); ++i)
    svg += cell_of(left + kCellWidth * static_cast<double>(i % chart.columns.size()),
                   top + kCellHeight * static_cast<double>(i / chart.columns.size()),
                   series.points[i].y);
  for (size_t i = 0; i < chart.rows.size(); ++i)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 6,
                       top + kCellHeight * (static_cast<double>(i) + 0.5) + 4,
                       escape_xml(chart.rows[i]));
  for (size_t i = 0; i < chart.columns.size(); ++i)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                       left + kCellWidth * (static_cast<double>(i) + 0.5),
                       top + grid_size(chart).height + 14, escape_xml(chart.columns[i]));
  return svg;
}

}  // namespace

std::string grids_of(const Chart& chart) {
  const Size grid = grid_size(chart);
  const double slot_width = kLeft + grid.width, slot_height = kName + grid.height + kAxis + kGap;
  const size_t in_a_row = std::min(kInARow, std::max<size_t>(1, chart.series.size()));
  const auto lines = static_cast<double>((chart.series.size() + in_a_row - 1) / in_a_row);
  const double width = std::max(560.0, slot_width * static_cast<double>(in_a_row) + kGap);
  const double height = kTop + slot_height * lines + kLabels;
  std::string svg = head_of(chart, width, height);
  for (size_t i = 0; i < chart.series.size(); ++i)
    svg += grid_of(chart, chart.series[i], kLeft + slot_width * static_cast<double>(i % in_a_row),
                   kTop + kName + slot_height * static_cast<double>(i / in_a_row));
  return svg + fmt::format("<text x=\"{}\" y=\"{:.1f}\">down: {}; across: {}</text>\n</svg>\n",
                           kLeft, height - 12, escape_xml(chart.y_label),
                           escape_xml(chart.x_label));
}

}  // namespace kvick::lab
