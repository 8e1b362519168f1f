#pragma once
// Writes made models as GGUF files.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "make_model/output.h"
#include "make_model/vocabulary.h"

#include "io/gguf/gguf_writer.h"

namespace kvick::tools {

using io::GgufMetadata;
using io::kGgufAlignment;

// Adds the tokenizer.ggml.* keys.
void put_vocabulary(const MadeVocabulary& vocabulary, GgufMetadata& metadata);

// Writes header, metadata, tensor infos and data.
base::Status<> write_gguf(const std::string& path, const GgufMetadata& metadata,
                          std::span<const TensorInfo> tensors, const RowSource& source,
                          base::ThreadPool& pool);

// Makes a model, as `make_model --format gguf` does.
base::Status<> make_gguf(const std::string& path, const Spec& spec, base::ThreadPool& pool);

}  // namespace kvick::tools
