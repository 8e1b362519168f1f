#pragma once
// Runs an experiment: cells in rounds, kept on disk after each, and what they show at the end.

#include <filesystem>
#include <functional>

#include "lab/core/experiment.h"
#include "plan/machine/calibration.h"

namespace kvick::lab {

struct RunOptions {
  std::filesystem::path folder;  // made if it is missing
  uint32_t rounds = 0;           // 0: the experiment's own number
  bool again = false;            // measure anew what the folder holds already
  Json machine;                  // what the results hold for, as the report shows it
  std::string command;           // that makes them again
  std::function<void(uint64_t done, uint64_t total, std::string_view cell)> progress;
};

struct RunResult {
  Json report;       // as written
  std::string text;  // its tables
  std::filesystem::path file;
  uint64_t measured = 0, reused = 0;  // runs
};

// All cells of round 1, then all of round 2 and so on, so that changes on the machine affect all
// cells alike. FOLDER/NAME.json is replaced atomically after every run; results in it for the same
// machine, inputs (inputs.h) and cells are not measured again. At the end it has tables and charts
// too. Errors: an experiment's own; a folder that cannot be written; a file there that the lab did
// not write.
base::Result<RunResult> run_experiment(const ExperimentRow& row, const Bench& bench,
                                       const RunOptions& options);

const ExperimentRow* find_experiment(std::string_view name);

}  // namespace kvick::lab
