#pragma once
// An experiment of the lab: cells that are measured one by one, in rounds, and what the results
// look like. A strategy's claims are measured here, so that anybody can measure them again.

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

// What experiments with row-selection policies (kv/registry/policies.h) go through.
struct Selecting {
  std::vector<std::string> policies = {};  // as --kv-select takes them, without a budget
  std::vector<std::string> budgets = {};   // as the policies take them
  // Files of maple, loki and kvzap.
  std::string predictor = {}, components = {}, scores = {};
};

// What bounded goes through.
struct Bounding {
  std::vector<std::string> models = {};  // files of models with a memory of slots
  std::vector<std::string> recall = {};  // summaries of kvick train on made-up sequences
  uint32_t trained = 0;  // tokens of the windows that the models were trained on; 0: not known
};

// What an experiment may use.
struct Bench {
  base::ThreadPool& pool;
  const kernels::Table& kernels;
  // Opens the model with an attention, once each; error: none was given, or whatever is wrong.
  std::function<base::Result<engine::Engine*>(engine::Attention)> model;
  // Opens another model, once.
  std::function<base::Result<engine::Engine*>(const std::string& path)> open = {};
  std::string model_path = {};      // of that model; empty: none was given
  std::vector<std::string> shapes;  // names of shapes.h to go through; empty: the default ones
  std::string file;                 // a text, a trace; empty: none
  // Tokens of a context and sequences of a batch, of experiments that let them be chosen; 0:
  // theirs.
  uint32_t tokens = 0, batch = 0;
  // As --kv, --kv-type, --kv-tier and --spec take them, of experiments that let them be chosen;
  // empty: theirs.
  std::vector<std::string> stores = {}, types = {}, specs = {};
  std::string tier = {};
  // What is empty in these: the experiment's own.
  Selecting select = {};
  Bounding bounded = {};
  std::vector<std::string> bandwidths = {};  // as kv-tier's take them: "4GB/s"
  // Prompts of a category, or requests of a trace; 0: the experiment's own number.
  uint32_t prompts = 0;
  // budget: tokens of a window that are read from all rows and do not count. sharing and
  // preemption: tokens of a prompt; 0: their own number.
  uint32_t prompt = 0;
  uint32_t text_tokens = 0;  // of the file that are read; 0: the experiment's own number
  uint32_t answer = 0;       // tokens of an answer, at most; 0: the experiment's own number
  std::function<void(std::string_view)> note;  // to the user
};

struct Cell {
  std::string key;  // the same for the same measurement, now and when going on after a break
  Json what;        // its parameters, by name
};

// The rounds of one cell: what measure() gave, in order.
struct Measured {
  Cell cell;
  std::vector<Json> runs;

  // The median of a number over the runs; 0 where no run has it.
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
  // One run of one cell: numbers by name. Error: ends the experiment; what was measured is kept.
  virtual base::Result<Json> measure(const Cell& cell) = 0;
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
};

std::span<const ExperimentRow> experiments();

}  // namespace kvick::lab
