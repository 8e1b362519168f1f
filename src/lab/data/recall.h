#pragma once
// Results of kvick train on made-up sequences that only a model with memory can answer: reads one
// run from each line of FOLDER/summary.json and draws accuracy by the number of slots.

#include <string>
#include <vector>

#include "lab/core/experiment.h"

namespace kvick::lab {

struct RecallRun {
  std::string task;      // mqar, copy
  std::string update;    // how a token changes the slots; empty: the model keeps rows
  bool by_both = false;  // a token is written to slots chosen by it and the token before it
  bool normed = false;   // what is read is normalised to one size
  uint32_t slots = 0;    // per KV head; 0: the model keeps rows
  uint32_t pairs = 0;    // pairs to remember
  double accuracy = 0;
  Json summary;  // everything that the line says
};

// Reads the runs of files with one such line per run, sorted by task, update, address, read, pairs
// and slots. Errors: a file cannot be read; a line has another form, named by its number; two runs
// have the same settings.
base::Result<std::vector<RecallRun>> read_recall(const std::vector<std::string>& paths);

// Adds a table, a chart and summary lines for each task.
void add_recall(const std::vector<RecallRun>& runs, Findings& findings);

}  // namespace kvick::lab
