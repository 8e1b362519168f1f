#pragma once
// Reads a Hugging Face folder's recommended sampling options.

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/huggingface/hf_tokenizer.h"

namespace kvick::io {

// Copies the sampling options of generation_config.json to `out`, under GGUF's keys:
// general.sampling.{temp, top_k, top_p, min_p, penalty_repeat}. As in vLLM, do_sample is ignored,
// because few models set it on purpose. suppress_tokens become GGUF's
// tokenizer.ggml.suppress_tokens; GGUF has no key for begin_suppress_tokens, which become
// kvick.begin_suppress_tokens. Error: not JSON, or a value that is not a number.
base::Status<> map_sampling(const NamedText& generation_config, Metadata& out);

}  // namespace kvick::io
