#pragma once
// What an experiment's figures depend on besides its cells' parameters.

#include <string>

#include "lab/core/experiment.h"

namespace kvick::lab {

// The contents of the files (the model, texts, what was learnt for a policy) and the numbers that
// hold for all cells: 32 hexadecimal digits. Cells of other inputs are other cells, though their
// keys are the same. Error: a file that cannot be read.
base::Result<std::string> inputs_of(const Bench& bench);

}  // namespace kvick::lab
