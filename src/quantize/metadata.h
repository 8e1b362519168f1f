#pragma once

#include "io/file/model_file.h"
#include "io/gguf/gguf_writer.h"

namespace kvick::quantize {

// Writes a Hugging Face folder's metadata as pairs of a GGUF file, with the value types that other
// programs expect (whole numbers uint32, others float32). Leaves out kvick.* keys that the tensors
// of a GGUF file make redundant.
void put_metadata(const io::Metadata& metadata, io::GgufMetadata& out);

}  // namespace kvick::quantize
