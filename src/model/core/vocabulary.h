#pragma once

#include "base/result.h"
#include "io/file/model_file.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::model {

// Reads a model file's tokenizer.ggml.* keys (and general.name, the only sign of some families'
// habits), with llama.cpp's defaults for missing keys. Errors name the key; text::Tokenizer::make
// checks that all of it fits together.
base::Result<text::Vocabulary> read_vocabulary(const io::ModelFile& file);

}  // namespace kvick::model
