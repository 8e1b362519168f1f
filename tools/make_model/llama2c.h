#pragma once
// Converts a checkpoint of karpathy's llama2.c (version 0) and its tokenizer to GGUF.

#include <string>

#include "base/result.h"
#include "base/thread_pool.h"

namespace kvick::tools {

// Pads the feed-forward layer with zeros to a multiple of 32. Errors: files that are too short or
// too long for their header, sizes out of range.
base::Status<> convert_llama2c(const std::string& checkpoint, const std::string& tokenizer,
                               const std::string& output, base::ThreadPool& pool);

}  // namespace kvick::tools
