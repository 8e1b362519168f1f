#include "lab/core/report.h"

#include <algorithm>

namespace kvick::lab {

Json json_of(const Chart& chart) {
  Json series = Json::array();
  for (const Series& one : chart.series) {
    Json points = Json::array();
    for (const Point& point : one.points) points.push_back({point.x, point.y});
    series.push_back({{"name", one.name}, {"points", std::move(points)}, {"dashed", one.dashed}});
  }
  return {{"name", chart.name},       {"title", chart.title},
          {"x_label", chart.x_label}, {"y_label", chart.y_label},
          {"log_x", chart.log_x},     {"log_y", chart.log_y},
          {"bars", chart.bars},       {"side_by_side", chart.side_by_side},
          {"columns", chart.columns}, {"rows", chart.rows},
          {"series", series}};
}

Json json_of(const Table& table) {
  return {{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}};
}

std::string text_of(const Table& table) {
  std::vector<size_t> widths;
  for (const std::string& column : table.columns) widths.push_back(column.size());
  for (const auto& row : table.rows)
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  const auto line = [&](const std::vector<std::string>& fields) {
    std::string text;
    for (size_t i = 0; i < fields.size() && i < widths.size(); ++i)
      text += i == 0 ? fmt::format("{:<{}}", fields[i], widths[i])
                     : fmt::format("  {:>{}}", fields[i], widths[i]);
    return text + "\n";
  };
  std::string text = table.title + "\n" + line(table.columns);
  for (const auto& row : table.rows) text += line(row);
  return text;
}

std::string text_of(const Findings& findings) {
  std::string text;
  for (const Table& table : findings.tables) text += (text.empty() ? "" : "\n") + text_of(table);
  return text;
}

}  // namespace kvick::lab
