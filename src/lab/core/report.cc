#include "lab/core/report.h"

#include <algorithm>

namespace kvick::lab {
namespace {

// The colours of the charts, so that they lie on the page without a frame.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; }
body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em;
  background: #fff; color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; padding-bottom: .4em; }
th, td { padding: .2em .7em; text-align: right; border-bottom: 1px solid #8884; }
th { vertical-align: bottom; border-bottom-color: #888; }
th.text, td.text { text-align: left; }
tr:hover td { background: #8881; }
code { background: #8882; padding: .1em .3em; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
svg { display: block; margin: 1em 0; }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #ddd; } }
)";

// Whether a column's fields are words, which stand on the left.
std::vector<bool> columns_of_text(const Table& table) {
  std::vector<bool> text(table.columns.size());
  for (const std::vector<std::string>& row : table.rows)
    for (size_t i = 0; i < row.size() && i < text.size(); ++i)
      text[i] = text[i] || row[i].find_first_not_of("0123456789.,()+-e% ") != std::string::npos;
  return text;
}

std::string html_of(const Table& table) {
  const std::vector<bool> text = columns_of_text(table);
  const auto line = [&](const std::vector<std::string>& fields, const char* tag) {
    std::string html = "<tr>";
    for (size_t i = 0; i < fields.size(); ++i)
      html +=
          fmt::format("<{0}{1}>{2}</{0}>", tag, i < text.size() && text[i] ? " class=\"text\"" : "",
                      escape_xml(fields[i]));
    return html + "</tr>\n";
  };
  std::string html = "<div class=\"wide\"><table><caption>" + escape_xml(table.title) +
                     "</caption>\n" + line(table.columns, "th");
  for (const std::vector<std::string>& row : table.rows) html += line(row, "td");
  return html + "</table></div>\n";
}

std::string machine_line(const Json& machine) {
  std::string line;
  for (const auto& [key, value] : machine.items())
    line += (line.empty() ? "" : ", ") + key + " " +
            (value.is_string() ? value.get<std::string>() : value.dump());
  return line;
}

}  // namespace

std::string html_of(const ExperimentRow& row, const Findings& findings, const Json& report) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>kvick lab {0}</title>\n<style>{1}</style>\n"
      "<h1>{0}</h1>\n<p>{2}</p>\n<p>Machine: {3}.</p>\n<p>Again: <code>{4}</code></p>\n",
      row.name, kStyle, escape_xml(row.summary), escape_xml(machine_line(report["machine"])),
      escape_xml(report["command"].get<std::string>()));
  for (const Chart& chart : findings.charts) html += svg_of(chart);
  for (const Table& table : findings.tables) html += html_of(table);
  return html + "</html>\n";
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
