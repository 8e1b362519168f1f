#pragma once

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/gguf/gguf_writer.h"

namespace kvick::quantize {

// Writes a Hugging Face folder's metadata as pairs of a GGUF file, with the value types that other
// programs expect (integers uint32, other numbers float32). Omits kvick.* keys whose content is in
// the tensors of a GGUF file. Error: an integer that does not fit.
base::Status<> put_metadata(const io::Metadata& metadata, io::GgufMetadata& out);

}  // namespace kvick::quantize
