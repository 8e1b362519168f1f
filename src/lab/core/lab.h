#pragma once
// Runs an experiment: cells in rounds, stored on disk after each run, and findings at the end.

#include <filesystem>
#include <functional>

#include "lab/core/experiment.h"
#include "plan/machine/calibration.h"

namespace kvick::lab {

struct RunOptions {
  std::filesystem::path folder;  // made if it is missing
  uint32_t rounds = 0;           // 0: the experiment's own number
  bool again = false;            // measure the cells again even if the folder has them
  Json machine;         // the machine that the results are valid for, as the report shows it
  std::string command;  // the command line that repeats the experiment
  std::function<void(uint64_t done, uint64_t total, std::string_view cell)> progress;
};

struct RunResult {
  Json report;       // as written to the file
  std::string text;  // the tables, for a terminal
  std::filesystem::path file;
  uint64_t measured = 0, reused = 0;  // runs
};

// Runs all cells of round 1, then all of round 2 and so on, so that changes on the machine affect
// all cells alike. FOLDER/NAME.json is replaced atomically after every run; its results are reused
// for the same machine, inputs (inputs.h) and cells; those of another machine are replaced, of
// which Bench::note tells the user. At the end it also has tables and charts. Errors: an
// experiment's own; the folder cannot be written; the file was not written by the lab.
base::Result<RunResult> run_experiment(const ExperimentRow& row, const Bench& bench,
                                       const RunOptions& options);

const ExperimentRow* find_experiment(std::string_view name);

}  // namespace kvick::lab
