#pragma once

#include "io/file/model_file.h"
#include "io/gguf/gguf_writer.h"

namespace kvick::quantize {

// Writes a Hugging Face folder's metadata as pairs of a GGUF file, with the value types that other
// programs expect (integers uint32, other numbers float32). Omits kvick.* keys whose content is in
// the tensors of a GGUF file.
void put_metadata(const io::Metadata& metadata, io::GgufMetadata& out);

}  // namespace kvick::quantize
