#pragma once
// Made-up sequences that only memory can answer, as kvick train was trained on them: what it says
// of each run in FOLDER/summary.json, drawn by the slots of the memory.

#include <string>
#include <vector>

#include "lab/core/experiment.h"

namespace kvick::lab {

struct RecallRun {
  std::string task;      // mqar, copy
  std::string update;    // how a token changes the memory; empty: a model that keeps rows
  bool by_both = false;  // tokens are written where they and the token before them point
  bool normed = false;   // what is read is brought to one size
  uint32_t slots = 0;    // of each KV head; 0: a model that keeps rows
  uint32_t pairs = 0;    // to be remembered
  double accuracy = 0;
  Json summary;  // all that the file says
};

// The runs of files with such a line each, or with many: by task, update, address, read, pairs and
// slots. Errors: a file that cannot be read or holds anything else, by its line; two runs of the
// same.
base::Result<std::vector<RecallRun>> read_recall(const std::vector<std::string>& paths);

// A table, a chart and the lines of the summary for each task.
void add_recall(const std::vector<RecallRun>& runs, Findings& findings);

}  // namespace kvick::lab
