#include "lab/reading/bounded_findings.h"

#include <algorithm>
#include <cmath>

#include "lab/core/trend.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

constexpr double kTrendTokens = 1024;  // slopes are given per this many tokens
constexpr double kClose = 3;           // percent over the model with rows that the paper allows

uint32_t number_of(const Measured& one, const char* name) {
  return one.cell.what[name].get<uint32_t>();
}

// Returns the models of a part, in the order of their cells.
std::vector<std::string> models_of(const std::vector<const Measured*>& cells) {
  std::vector<std::string> models;
  for (const Measured* one : cells) {
    const auto model = one->cell.what["model"].get<std::string>();
    if (std::find(models.begin(), models.end(), model) == models.end()) models.push_back(model);
  }
  return models;
}

std::vector<const Measured*> measured(std::span<const Measured> all, const Json& what) {
  std::vector<const Measured*> cells = matching(all, what);
  std::erase_if(cells, [](const Measured* one) { return one->runs.empty(); });
  return cells;
}

// Makes one line of a chart.
Series series_of(const std::string& name, const std::vector<const Measured*>& cells, const char* x,
                 const std::string& field, double factor) {
  Series series = {.name = name, .points = {}};
  for (const Measured* one : cells)
    series.points.push_back({static_cast<double>(number_of(*one, x)), factor * one->median(field)});
  return series;
}

Chart chart_of(const char* name, std::string title, const char* x, const char* y) {
  return {.name = name,
          .title = std::move(title),
          .x_label = x,
          .y_label = y,
          .log_x = true,
          .series = {},
          .bars = {}};
}

// The change of a model's time and bytes with the depth. Fitted to the medians, because one
// disturbed run would hide a slope in its error.
struct Slopes {
  Trend time, bytes;
};

Slopes slopes_of(const std::vector<const Measured*>& cells) {
  std::vector<double> depths, seconds, bytes;
  for (const Measured* one : cells) {
    depths.push_back(number_of(*one, "depth") / kTrendTokens);
    seconds.push_back(one->median("step_s"));
    bytes.push_back(one->median("allocated_bytes"));
  }
  return {trend_of(depths, seconds), trend_of(depths, bytes)};
}

Json summary_of(const std::string& model, const std::vector<const Measured*>& cells,
                const Slopes& slopes) {
  return {{"model", model},
          {"slots", cells[0]->cell.what["slots"]},
          {"first_depth", number_of(*cells.front(), "depth")},
          {"last_depth", number_of(*cells.back(), "depth")},
          {"first_step_us", 1e6 * cells.front()->median("step_s")},
          {"last_step_us", 1e6 * cells.back()->median("step_s")},
          {"slope_us_per_1024_tokens", 1e6 * slopes.time.slope},
          {"slope_error_us", 1e6 * slopes.time.slope_error},
          {"slope_within_noise", slopes.time.within_noise()},
          {"first_bytes", cells.front()->median("allocated_bytes")},
          {"last_bytes", cells.back()->median("allocated_bytes")},
          {"bytes_per_1024_tokens", slopes.bytes.slope}};
}

std::vector<std::string> row_of(const std::string& model, const std::vector<const Measured*>& cells,
                                const Slopes& slopes) {
  std::vector<std::string> row = {model};
  for (const Measured* one : cells)
    row.push_back(fmt::format("{:.1f}", 1e6 * one->median("step_s")));
  row.push_back(fmt::format("{:+.3f}", 1e6 * slopes.time.slope));
  row.push_back(fmt::format("{:.3f}", 1e6 * slopes.time.slope_error));
  row.push_back(fmt::format("{:.3f}", cells.front()->median("allocated_bytes") / 1e6));
  row.push_back(fmt::format("{:.3f}", cells.back()->median("allocated_bytes") / 1e6));
  return row;
}

// base: the model that keeps rows, at the same context.
Json perplexity_case(const Measured& one, const Measured& base, uint32_t trained) {
  const double perplexity = one.median("perplexity");
  const double over = 100 * (perplexity / base.median("perplexity") - 1);
  return {{"model", one.cell.what["model"]},
          {"slots", one.cell.what["slots"]},
          {"context", one.cell.what["context"]},
          {"longer_than_trained", trained != 0 && number_of(one, "context") > trained},
          {"perplexity", perplexity},
          {"error_percent", 100 * one.median("nll_error")},  // of exp(nll), to first order
          {"over_rows_percent", over},
          {"at_most_3_percent_over", over <= kClose}};
}

std::vector<std::string> perplexity_row(const Json& row, bool compares) {
  return {
      std::to_string(row["context"].get<uint32_t>()),
      row["longer_than_trained"].get<bool>() ? "yes" : "", row["model"].get<std::string>(),
      fmt::format("{:.3f}", row["perplexity"].get<double>()),
      // With one window there is no error.
      row["error_percent"] == 0.0 ? "" : fmt::format("{:.1f}", row["error_percent"].get<double>()),
      compares ? fmt::format("{:+.1f}", row["over_rows_percent"].get<double>()) : ""};
}

}  // namespace

void add_perplexity(std::span<const Measured> all, const std::string& rows, uint32_t trained,
                    Findings& findings) {
  const std::vector<const Measured*> cells = measured(all, {{"part", kPerplexityPart}});
  if (cells.empty()) return;
  const std::string windows =
      trained == 0 ? "" : fmt::format(", trained on windows of {} tokens", trained);
  Table table = {.title = fmt::format("Perplexity of {} tokens of {} by context{}",
                                      number_of(*cells[0], "tokens"),
                                      cells[0]->cell.what["text"].get<std::string>(), windows),
                 .columns = {"context", "longer than trained", "model", "perplexity",
                             "standard error %", "against rows %"},
                 .rows = {}};
  Chart chart = chart_of("bounded-perplexity", "Perplexity by context" + windows,
                         "tokens of a context", "perplexity");
  Json cases = Json::array();
  for (const Measured* one : cells) {
    const std::vector<const Measured*> base = measured(
        all, {{"part", kPerplexityPart}, {"model", rows}, {"context", one->cell.what["context"]}});
    if (base.empty()) continue;
    cases.push_back(perplexity_case(*one, *base[0], trained));
    table.rows.push_back(perplexity_row(cases.back(), one != base[0]));
  }
  for (const std::string& model : models_of(cells))
    chart.series.push_back(series_of(model,
                                     measured(all, {{"part", kPerplexityPart}, {"model", model}}),
                                     "context", "perplexity", 1));
  findings.summary["perplexity"] = std::move(cases);
  findings.tables.push_back(std::move(table));
  findings.charts.push_back(std::move(chart));
}

void add_decode(std::span<const Measured> all, Findings& findings) {
  const std::vector<const Measured*> cells = measured(all, {{"part", kDecodePart}});
  if (cells.empty()) return;
  Table table = {.title =
                     "Microseconds of the next token by depth; their slope over 1024 tokens "
                     "and its standard error; MB held at the first depth and at the last",
                 .columns = {"model"},
                 .rows = {}};
  Chart time = chart_of("bounded-time", "The next token, by tokens before it",
                        "tokens in the context", "microseconds");
  Chart bytes = chart_of("bounded-bytes", "Bytes held, by tokens in the context",
                         "tokens in the context", "bytes");
  Json cases = Json::array();
  for (const std::string& model : models_of(cells)) {
    const std::vector<const Measured*> own =
        measured(all, {{"part", kDecodePart}, {"model", model}});
    if (table.columns.size() == 1)
      for (const Measured* one : own)
        table.columns.push_back(std::to_string(number_of(*one, "depth")));
    const Slopes slopes = slopes_of(own);
    cases.push_back(summary_of(model, own, slopes));
    table.rows.push_back(row_of(model, own, slopes));
    time.series.push_back(series_of(model, own, "depth", "step_s", 1e6));
    bytes.series.push_back(series_of(model, own, "depth", "allocated_bytes", 1));
  }
  for (const char* column : {"slope", "error", "MB first", "MB last"})
    table.columns.emplace_back(column);
  findings.summary["decode"] = std::move(cases);
  findings.tables.push_back(std::move(table));
  findings.charts.push_back(std::move(time));
  findings.charts.push_back(std::move(bytes));
}

}  // namespace kvick::lab
