#pragma once
// An experiment of the lab: cells that are measured one by one, in rounds, and the findings from
// the results. Claims about strategies are measured here, so that anybody can repeat the
// measurement.

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/core/engine.h"
#include "lab/core/chart.h"

namespace kvick::lab {

using Json = nlohmann::ordered_json;

// Row-selection policies (kv/registry/policies.h) that an experiment compares.
struct Selecting {
  std::vector<std::string> policies = {};  // as --kv-select takes them, without a budget
  std::vector<std::string> budgets = {};   // as the policies take them
  // Predictor files of maple, loki, kvzap and duo.
  std::string predictor = {}, components = {}, scores = {}, heads = {};
};

// Inputs of the experiment `bounded`.
struct Bounding {
  std::vector<std::string> models = {};  // files of models with slots
  std::vector<std::string> recall = {};  // summary files of kvick train on made-up sequences
  uint32_t trained = 0;  // window in tokens that the models were trained on; 0: unknown
};

// What an experiment may use: threads, kernels, models, and the user's options.
struct Bench {
  base::ThreadPool& pool;
  const kernels::Table& kernels;
  // Opens the model with this kind of attention, once per kind. Error: no model was given, or it
  // cannot be opened.
  std::function<base::Result<engine::Engine*>(engine::Attention)> model;
  // Opens another model, once.
  std::function<base::Result<engine::Engine*>(const std::string& path)> open = {};
  std::string model_path = {};      // path of the model opened by `model`; empty: none was given
  std::vector<std::string> shapes;  // names of shapes in shapes.h; empty: the default ones
  std::string file;                 // path of a text or a trace; empty: none
  // Tokens of a context and sequences of a batch, for experiments with such options; 0: the
  // experiment's own numbers.
  uint32_t tokens = 0, batch = 0;
  // Values of --kv, --kv-type and --spec, and of --kv-tier, for experiments with such options;
  // empty: the experiment's own values.
  std::vector<std::string> stores = {}, types = {}, specs = {};
  std::string tier = {};
  // Empty fields of these: the experiment's own values.
  Selecting select = {};
  Bounding bounded = {};
  std::vector<std::string> bandwidths = {};  // as --kv-tier takes them: "4GB/s"
  // Prompts per category, or requests of a trace; 0: the experiment's own number.
  uint32_t prompts = 0;
  // budget: tokens of a window that are read from all rows and not counted. sharing and preemption:
  // tokens of a prompt; 0: the experiment's own number.
  uint32_t prompt = 0;
  uint32_t text_tokens = 0;  // tokens read of the file; 0: the experiment's own number
  uint32_t answer = 0;       // tokens of an answer; 0: the experiment's own number
  std::function<void(std::string_view)> note;  // shows a note to the user
};

struct Cell {
  std::string key;  // identifies the measurement, also when the experiment is continued later
  Json what;        // its parameters, by name
};

// The rounds of one cell: the results of measure(), in order.
struct Measured {
  Cell cell;
  std::vector<Json> runs;

  // Returns the median of a number over the runs; 0 if no run has it.
  double median(const std::string& field) const;
};

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Findings {
  Json summary;  // the figures that matter
  std::vector<Table> tables;
  std::vector<Chart> charts;
};

class Experiment {
 public:
  virtual ~Experiment() = default;
  virtual base::Result<std::vector<Cell>> cells() = 0;
  // Runs one cell once and returns numbers by name. An error ends the experiment; earlier results
  // are kept.
  virtual base::Result<Json> measure(const Cell& cell) = 0;
  // all: the measured cells in their order; then those of ExperimentRow::gathers.
  virtual Findings findings(std::span<const Measured> all) = 0;
};

// Sizes with which an experiment takes seconds and still shows the direction: the options of these
// names where the user gives none. 0 or null: the experiment's own size is small enough.
struct QuickSizes {
  uint32_t ctx = 0, batch = 0, prompts = 0, prompt = 0, tokens = 0, answer = 0;
  const char* shape = nullptr;
  const char* budget = nullptr;
  const char* bandwidth = nullptr;
};

struct ExperimentRow {
  std::string_view name, summary;
  uint32_t rounds;  // by default
  std::unique_ptr<Experiment> (*make)(const Bench& bench);
  QuickSizes quick = {};
  // The options that it reads, of those that only some experiments read; -m is not among them.
  std::string_view reads = {};
  // Its findings also cover cells that earlier calls measured with the same inputs, such as other
  // policies.
  bool gathers = false;
};

std::span<const ExperimentRow> experiments();
// Whether `reads` of the row has this option.
bool reads(const ExperimentRow& row, std::string_view option);

}  // namespace kvick::lab
