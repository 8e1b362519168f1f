#pragma once
// The inputs that an experiment's figures depend on, besides the parameters of its cells.

#include <string>

#include "lab/core/experiment.h"

namespace kvick::lab {

// Returns a hash of the contents of the files (model, texts, files learnt for policies) and of the
// numbers that apply to all cells: 32 hexadecimal digits. Results are reused only for the same
// inputs, even if the keys of cells are equal. Error: a file cannot be read.
base::Result<std::string> inputs_of(const Bench& bench);

}  // namespace kvick::lab
