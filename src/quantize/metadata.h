#pragma once

#include "io/file/model_file.h"
#include "io/gguf/gguf_writer.h"

namespace kvick::quantize {

// The metadata of a Hugging Face folder as pairs of a GGUF file, with the value types that other
// programs expect (whole numbers uint32, others float32), without what kvick.* keys say that the
// tensors of such a file say themselves.
void put_metadata(const io::Metadata& metadata, io::GgufMetadata& out);

}  // namespace kvick::quantize
