#pragma once
// Writes a Hugging Face model folder: config.json, tokenizer.json, tokenizer_config.json and
// safetensors.

#include <string>

#include "make_model/spec.h"

#include "base/result.h"
#include "base/thread_pool.h"

namespace kvick::tools {

// Writes into the existing or new folder `path`. shards: number of safetensors files; one file is
// named model.safetensors, several come with an index. Errors: a type that safetensors lacks, a
// vocabulary that is not byte-level.
base::Status<> make_hugging_face(const std::string& path, const Spec& spec, uint32_t shards,
                                 base::ThreadPool& pool);

}  // namespace kvick::tools
