#pragma once
// Tensor names of Hugging Face models in GGUF's vocabulary.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/huggingface/hf_config.h"

namespace kvick::io {

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight". nullopt: a tensor that is not
// needed (a buffer, or the output matrix of a model that shares it with the embedding). Error: a
// name that the architecture does not have, or a layer past the last; `label` says where it stands.
base::Result<std::optional<std::string>> map_tensor_name(const HfConfig& config,
                                                         std::string_view name,
                                                         const std::string& label);

}  // namespace kvick::io
