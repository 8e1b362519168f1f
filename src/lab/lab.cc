#include "lab/lab.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "base/write_file.h"
#include "engine/speed.h"
#include "lab/report.h"

namespace kvick::lab {
namespace {

namespace fs = std::filesystem;

// Runs of an earlier call, by cell.
using Runs = std::map<std::string, std::vector<Json>>;

base::Result<Runs> read_runs(const fs::path& path, std::string_view name, const Json& machine) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Runs{};
  const Json found =
      Json::parse(std::string(std::istreambuf_iterator<char>(in), {}), nullptr, false);
  if (!found.is_object() || found.value("experiment", "") != name || !found.contains("cells") ||
      !found["cells"].is_array())
    return base::fail("{} is no result of the experiment {}: give another folder, or remove it",
                      path.string(), name);
  Runs runs;
  if (!found.contains("machine") || found["machine"] != machine) return runs;  // of other times
  for (const Json& cell : found["cells"])
    if (cell.is_object() && cell.contains("key") && cell["key"].is_string() &&
        cell.contains("runs") && cell["runs"].is_array())
      for (const Json& run : cell["runs"])
        if (run.is_object()) runs[cell["key"].get<std::string>()].push_back(run);
  return runs;
}

Json json_of(const ExperimentRow& row, const RunOptions& options,
             std::span<const Measured> measured) {
  Json cells = Json::array();
  for (const Measured& one : measured)
    if (!one.runs.empty())
      cells.push_back({{"key", one.cell.key}, {"what", one.cell.what}, {"runs", one.runs}});
  return {{"experiment", row.name},
          {"summary", Json::object()},
          {"machine", options.machine},
          {"command", options.command},
          {"cells", cells}};
}

}  // namespace

double Measured::median(const std::string& field) const {
  std::vector<double> values;
  for (const Json& run : runs)
    if (const auto at = run.find(field); at != run.end() && at->is_number())
      values.push_back(at->get<double>());
  return engine::median(std::move(values));
}

const ExperimentRow* find_experiment(std::string_view name) {
  for (const ExperimentRow& row : experiments())
    if (row.name == name) return &row;
  return nullptr;
}

base::Result<RunResult> run_experiment(const ExperimentRow& row, const Bench& bench,
                                       const RunOptions& options) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error)
    return base::fail("cannot make the folder {}: {}", options.folder.string(), error.message());
  const fs::path path = options.folder / fmt::format("{}.json", row.name);
  Runs kept;
  if (!options.again) {
    KVICK_TRY(kept, read_runs(path, row.name, options.machine));
  }
  const std::unique_ptr<Experiment> experiment = row.make(bench);
  KVICK_TRY(std::vector<Cell> cells, experiment->cells());
  const uint32_t rounds = options.rounds != 0 ? options.rounds : row.rounds;
  std::vector<Measured> measured;
  for (Cell& cell : cells) measured.push_back({.cell = std::move(cell), .runs = {}});
  RunResult result;
  uint64_t done = 0;
  for (uint32_t round = 0; round < rounds; ++round)
    for (Measured& one : measured) {
      if (options.progress)
        options.progress(done++, uint64_t{rounds} * measured.size(), one.cell.key);
      const std::vector<Json>& before = kept[one.cell.key];
      if (round < before.size()) {
        one.runs.push_back(before[round]);
        ++result.reused;
        continue;
      }
      KVICK_TRY(Json run, experiment->measure(one.cell));
      one.runs.push_back(std::move(run));
      ++result.measured;
      KVICK_TRY_VOID(base::write_file(path, json_of(row, options, measured).dump(1) + "\n"));
    }
  const Findings findings = experiment->findings(measured);
  result.report = json_of(row, options, measured);
  result.report["summary"] = findings.summary;
  result.text = text_of(findings);
  KVICK_TRY_VOID(base::write_file(path, result.report.dump(1) + "\n"));
  result.files.push_back(path);
  for (const Chart& chart : findings.charts) {
    result.files.push_back(options.folder / (chart.name + ".svg"));
    KVICK_TRY_VOID(base::write_file(result.files.back(), svg_of(chart)));
  }
  result.files.push_back(options.folder / fmt::format("{}.html", row.name));
  KVICK_TRY_VOID(base::write_file(result.files.back(), html_of(row, findings, result.report)));
  return result;
}

}  // namespace kvick::lab
