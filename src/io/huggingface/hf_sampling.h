#pragma once
// How a Hugging Face folder says that its model's answers are best sampled.

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/huggingface/hf_tokenizer.h"

namespace kvick::io {

// Reads the sampling values of a Hugging Face folder's generation_config.json into `out`, under
// GGUF's keys: general.sampling.{temp, top_k, top_p, min_p, penalty_repeat}. As in vLLM they count
// whatever do_sample says, which few models set on purpose. Error: no JSON, or a value that is no
// number.
base::Status<> map_sampling(const NamedText& generation_config, Metadata& out);

}  // namespace kvick::io
