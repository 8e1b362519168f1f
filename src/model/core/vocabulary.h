#pragma once

#include "base/result.h"
#include "io/file/model_file.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::model {

// A model file's tokenizer.ggml.* (and general.name, which alone tells some families' habits), with
// llama.cpp's defaults for what is not there. Errors name the key; whether it all fits together is
// for text::Tokenizer::make to say.
base::Result<text::Vocabulary> read_vocabulary(const io::ModelFile& file);

}  // namespace kvick::model
