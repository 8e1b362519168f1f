#pragma once
// The data of a chart, which tools/report draws: lines over a numeric axis, bars over names
// (stacked or side by side), or grids of shares.

#include <string>
#include <vector>

namespace kvick::lab {

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name;
  std::vector<Point> points;  // of lines: ascending in x
  bool dashed = false;        // predicted, not measured
};

struct Chart {
  std::string name;  // its file's name, without .svg
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;  // axes that need values above 0
  std::vector<Series> series;
  // For bars, instead of x: point i of a series is its part of bar i.
  std::vector<std::string> bars;
  bool side_by_side = false;  // false: the parts of a bar are stacked
  // For grids, one per series, instead of lines and bars: point i is in column i % columns.size()
  // of row i / columns.size(); its y is a share from 0 to 1.
  std::vector<std::string> columns = {}, rows = {};
};

}  // namespace kvick::lab
