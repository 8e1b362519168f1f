#include "lab/data/recall.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

namespace kvick::lab {
namespace {

bool has_number(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_number();
}

bool has_text(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_string();
}

base::Result<RecallRun> run_of(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !has_text(json, "task") || !has_text(json, "arch"))
    return base::fail("is no summary of kvick train");
  RecallRun run = {.task = json["task"].get<std::string>(), .summary = json};
  if (!has_number(json, "pairs") || !has_number(json, "accuracy"))
    return base::fail("is of --task {}, or was not measured; recall is --task mqar and --task copy",
                      run.task);
  run.pairs = json["pairs"].get<uint32_t>();
  run.accuracy = json["accuracy"].get<double>();
  if (json["arch"] != "bct") return run;
  if (!has_text(json, "update") || !has_number(json, "slots"))
    return base::fail("is no summary of kvick train: a memory has an update and slots");
  run.update = json["update"].get<std::string>();
  run.slots = json["slots"].get<uint32_t>();
  run.by_both = json.value("address", Json("own")) == "both";
  run.normed = json.value("read", Json("plain")) == "normed";
  return run;
}

auto order_of(const RecallRun& run) {
  return std::tie(run.task, run.update, run.by_both, run.normed, run.pairs, run.slots);
}

std::string name_of(const RecallRun& run) {
  return fmt::format("{}{}{}, {} pairs", run.slots == 0 ? "rows (lm)" : run.update,
                     run.by_both ? " both" : "", run.normed ? " normed" : "", run.pairs);
}

std::string task_name(const std::string& task) {
  return task == "mqar" ? "Multi-query associative recall" : "Copying";
}

// Runs of one task, sorted.
using Runs = std::span<const RecallRun>;

std::vector<uint32_t> slots_of(Runs runs) {
  std::set<uint32_t> slots;
  for (const RecallRun& run : runs)
    if (run.slots != 0) slots.insert(run.slots);
  return {slots.begin(), slots.end()};
}

// A model that keeps rows has no slots: its accuracy becomes a horizontal line over all sizes.
Chart chart_of(Runs runs) {
  Chart chart = {.name = "bounded-recall-" + runs[0].task,
                 .title = fmt::format("{}: right answers by slots", task_name(runs[0].task)),
                 .x_label = "slots of each KV head",
                 .y_label = "% right",
                 .log_x = true,
                 .series = {},
                 .bars = {}};
  const std::vector<uint32_t> slots = slots_of(runs);
  for (const RecallRun& run : runs) {
    std::vector<Series>& all = chart.series;
    const std::string name = name_of(run);
    if (all.empty() || all.back().name != name)
      all.push_back({.name = name, .points = {}, .dashed = run.slots == 0});
    if (run.slots != 0)
      all.back().points.push_back({static_cast<double>(run.slots), 100 * run.accuracy});
    else
      for (const uint32_t each : slots)
        all.back().points.push_back({static_cast<double>(each), 100 * run.accuracy});
  }
  return chart;
}

Table table_of(Runs runs) {
  Table table = {.title = fmt::format("{}: % of answers that are right, by slots of each KV head",
                                      task_name(runs[0].task)),
                 .columns = {"update"},
                 .rows = {}};
  const std::vector<uint32_t> slots = slots_of(runs);
  for (const uint32_t each : slots) table.columns.push_back(fmt::format("M={}", each));
  if (slots.empty()) table.columns.emplace_back("right");
  for (const RecallRun& run : runs) {
    const std::string name = name_of(run);
    if (table.rows.empty() || table.rows.back()[0] != name) {
      table.rows.push_back({name});
      table.rows.back().resize(table.columns.size());
    }
    for (size_t i = 1; i < table.columns.size(); ++i)
      if (run.slots == 0 || run.slots == slots[i - 1])
        table.rows.back()[i] = fmt::format("{:.1f}", 100 * run.accuracy);
  }
  return table;
}

}  // namespace

base::Result<std::vector<RecallRun>> read_recall(const std::vector<std::string>& paths) {
  std::vector<RecallRun> runs;
  for (const std::string& path : paths) {
    std::ifstream in(path);
    if (!in) return base::fail("cannot read {}", path);
    uint32_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.empty()) continue;
      auto run = run_of(line);
      if (!run.ok()) return base::fail("{}:{}: {}", path, number, run.error().message);
      runs.push_back(std::move(run).value());
    }
  }
  std::sort(runs.begin(), runs.end(),
            [](const RecallRun& a, const RecallRun& b) { return order_of(a) < order_of(b); });
  for (size_t i = 1; i < runs.size(); ++i)
    if (order_of(runs[i - 1]) == order_of(runs[i]))
      return base::fail("two runs of {} with {} and {} slots: give one of them", runs[i].task,
                        name_of(runs[i]), runs[i].slots);
  return runs;
}

void add_recall(const std::vector<RecallRun>& runs, Findings& findings) {
  Json lines = Json::array();
  for (const RecallRun& run : runs) lines.push_back(run.summary);
  findings.summary["recall"] = std::move(lines);
  for (size_t first = 0; first < runs.size();) {
    size_t end = first;
    while (end < runs.size() && runs[end].task == runs[first].task) ++end;
    const Runs task = {&runs[first], end - first};
    findings.tables.push_back(table_of(task));
    findings.charts.push_back(chart_of(task));
    first = end;
  }
}

}  // namespace kvick::lab
