#pragma once

#include "base/result.h"
#include "io/file/model_file.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::model {

// Reads a model file's tokenizer.ggml.* keys, with llama.cpp's defaults for missing keys. Also
// reads general.name, the only sign of some families' special cases. Errors name the key.
// text::Tokenizer::make checks that all of it is consistent.
base::Result<text::Vocabulary> read_vocabulary(const io::ModelFile& file);

}  // namespace kvick::model
