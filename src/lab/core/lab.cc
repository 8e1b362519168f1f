#include "lab/core/lab.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "base/text_file.h"
#include "engine/eval/speed.h"
#include "lab/core/inputs.h"
#include "lab/core/report.h"

namespace kvick::lab {
namespace {

namespace fs = std::filesystem;

// Cells of earlier calls, with their runs, by key and inputs.
using Kept = std::map<std::pair<std::string, std::string>, Json>;

bool is_cell(const Json& cell) {
  return cell.is_object() && cell.contains("key") && cell["key"].is_string() &&
         cell.contains("inputs") && cell["inputs"].is_string() && cell.contains("runs") &&
         cell["runs"].is_array() &&
         std::all_of(cell["runs"].begin(), cell["runs"].end(),
                     [](const Json& run) { return run.is_object(); });
}

base::Result<Kept> read_kept(const fs::path& path, std::string_view name, const Json& machine,
                             const Bench& bench) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Kept{};
  const Json found =
      Json::parse(std::string(std::istreambuf_iterator<char>(in), {}), nullptr, false);
  if (!found.is_object() || found.value("experiment", "") != name || !found.contains("cells") ||
      !found["cells"].is_array())
    return base::fail("{} is no result of the experiment {}: give another folder, or remove it",
                      path.string(), name);
  Kept kept;
  if (!found.contains("machine") || found["machine"] != machine) {
    if (!found["cells"].empty())
      bench.note(fmt::format(
          "{} has results of another machine or number of threads, which the new ones replace: "
          "give another -o to keep them",
          path.string()));
    return kept;
  }
  for (const Json& cell : found["cells"])
    if (is_cell(cell))
      kept[{cell["key"].get<std::string>(), cell["inputs"].get<std::string>()}] = cell;
  return kept;
}

struct Cells {
  std::vector<Measured> measured;
  std::string inputs;  // hash of the inputs of `measured`
  Kept others;         // measured by calls with other options; kept in the file
};

Json json_of(const ExperimentRow& row, const RunOptions& options, const Cells& all) {
  Json cells = Json::array();
  for (const Measured& one : all.measured)
    if (!one.runs.empty())
      cells.push_back({{"key", one.cell.key},
                       {"inputs", all.inputs},
                       {"what", one.cell.what},
                       {"runs", one.runs}});
  for (const auto& [key, cell] : all.others) cells.push_back(cell);
  return {{"experiment", row.name},
          {"summary", Json::object()},
          {"machine", options.machine},
          {"command", options.command},
          {"cells", cells}};
}

// Returns whether two objects have the same names, with values of the same kind.
bool alike(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object() || a.size() != b.size()) return false;
  for (auto at = a.begin(); at != a.end(); ++at) {
    const auto other = b.find(at.key());
    if (other == b.end()) return false;
    if (at->type() != other->type() && !(at->is_number() && other->is_number())) return false;
  }
  return true;
}

// Returns the measured cells and, behind them, those of earlier calls with the same inputs. Cells
// with other fields are of an earlier version of the program; they stay in the file only.
std::vector<Measured> gathered(const Cells& all) {
  std::vector<Measured> cells = all.measured;
  if (cells.empty() || cells.front().runs.empty()) return cells;
  const Measured first = cells.front();
  for (const auto& [key, cell] : all.others) {
    if (key.second != all.inputs || !cell.contains("what")) continue;
    Measured one = {.cell = {.key = key.first, .what = cell["what"]},
                    .runs = cell["runs"].get<std::vector<Json>>()};
    if (!one.runs.empty() && alike(one.cell.what, first.cell.what) &&
        std::all_of(one.runs.begin(), one.runs.end(),
                    [&](const Json& run) { return alike(run, first.runs.front()); }))
      cells.push_back(std::move(one));
  }
  return cells;
}

// Replaces invalid UTF-8, which a path in the command may have.
std::string file_text(const Json& report) {
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
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
  Cells all;
  std::vector<Measured>& measured = all.measured;
  KVICK_TRY(all.others, read_kept(path, row.name, options.machine, bench));
  const std::unique_ptr<Experiment> experiment = row.make(bench);
  KVICK_TRY(std::vector<Cell> cells, experiment->cells());
  KVICK_TRY(all.inputs, inputs_of(bench));
  const uint32_t rounds = options.rounds != 0 ? options.rounds : row.rounds;
  for (Cell& cell : cells) {
    Measured& one = measured.emplace_back(Measured{.cell = std::move(cell), .runs = {}});
    if (options.again) continue;  // its earlier runs stay in the file until the first new one
    if (const auto before = all.others.extract({one.cell.key, all.inputs}))
      one.runs = before.mapped()["runs"].get<std::vector<Json>>();
  }
  RunResult result;
  uint64_t done = 0;
  for (uint32_t round = 0; round < rounds; ++round)
    for (Measured& one : measured) {
      if (options.progress)
        options.progress(done++, uint64_t{rounds} * measured.size(), one.cell.key);
      if (round < one.runs.size()) {
        ++result.reused;
        continue;
      }
      KVICK_TRY(Json run, experiment->measure(one.cell));
      one.runs.push_back(std::move(run));
      all.others.erase({one.cell.key, all.inputs});
      ++result.measured;
      KVICK_TRY_VOID(base::write_file(path, file_text(json_of(row, options, all))));
    }
  const Findings findings = experiment->findings(row.gathers ? gathered(all) : measured);
  result.report = json_of(row, options, all);
  result.report["summary"] = findings.summary;
  for (const Table& table : findings.tables) result.report["tables"].push_back(json_of(table));
  for (const Chart& chart : findings.charts) result.report["charts"].push_back(json_of(chart));
  result.text = text_of(findings);
  KVICK_TRY_VOID(base::write_file(path, file_text(result.report)));
  result.file = path;
  return result;
}

}  // namespace kvick::lab
