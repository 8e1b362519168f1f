#pragma once
// A model file's weights for a run to begin with: kvick reads the file, so that training needs
// neither its container nor its element types (docs/adr/0014-training-apart.md).

#include <span>

#include "base/result.h"
#include "io/file/model_file.h"
#include "kv/select/predictor.h"
#include "train/files/checkpoint.h"

namespace kvick::train {

// A checkpoint before its first step: the weights as float32, and the settings and the vocabulary
// of the file. layers: which of the file's blocks to take, in this order; none: all. Errors, named:
// what the trainer cannot compute as the engine does (an architecture other than llama, scaled
// rotary position, an output matrix of its own, biases), a layer that is not there, a shape that
// complete() refuses.
base::Result<Checkpoint> start_of(const io::ModelFile& file, std::span<const uint32_t> layers);

// Adds MAPLE's predictor to a checkpoint of all layers, for `kvick train maple`. Scales its query
// and key rows to equal size instead of int8 units. Error: another form than `heads`.
base::Status<> add_predictor(const kv::Predictor& predictor, Checkpoint& start);
// The predictor in the best weights; fields of its shape that a checkpoint does not know are 0.
// Error: there is none.
base::Result<kv::Predictor> predictor_of(const Checkpoint& trained);

}  // namespace kvick::train
