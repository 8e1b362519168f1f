#pragma once
// What a chart shows; tools/report draws it. Lines over a numeric axis, bars over names, stacked or
// side by side, or grids of shares.

#include <string>
#include <vector>

namespace kvick::lab {

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name;
  std::vector<Point> points;  // of lines: ascending in x
  bool dashed = false;        // what was predicted, not measured
};

struct Chart {
  std::string name;  // of its file, without .svg
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;  // all values above 0
  std::vector<Series> series;
  // Of bars, instead of x: point i of a series is its part of bar i.
  std::vector<std::string> bars;
  bool side_by_side = false;  // the parts of a bar; else on top of one another
  // Of grids, one for each series, instead of both: point i is in column i % columns.size() of row
  // i / columns.size(), its y a share of 1.
  std::vector<std::string> columns = {}, rows = {};
};

}  // namespace kvick::lab
