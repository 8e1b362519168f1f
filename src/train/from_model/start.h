#pragma once
// Turns a model file into a checkpoint for a new run. kvick reads the file, so that training needs
// neither its container nor its element types (docs/adr/0014-training-apart.md).

#include <span>

#include "base/result.h"
#include "io/file/model_file.h"
#include "kv/select/predictor.h"
#include "train/files/checkpoint.h"

namespace kvick::train {

// Returns a checkpoint before its first step: the weights as float32, the settings and the
// vocabulary of the file. layers: the file's blocks to take, in this order; empty: all. Errors:
// what the trainer cannot compute as the engine does (an architecture other than llama, scaled
// rotary position, a separate output matrix, biases), a layer that does not exist, a shape that
// complete() refuses.
base::Result<Checkpoint> start_of(const io::ModelFile& file, std::span<const uint32_t> layers);

// Adds MAPLE's predictor to a checkpoint of all layers, for `kvick train maple`. Scales its query
// and key rows to equal size instead of int8 units. Error: a form other than `heads`.
base::Status<> add_predictor(const kv::Predictor& predictor, Checkpoint& start);
// Returns the predictor of the best weights; fields of its shape that a checkpoint does not hold
// are 0. Error: the checkpoint has no predictor.
base::Result<kv::Predictor> predictor_of(const Checkpoint& trained);

}  // namespace kvick::train
