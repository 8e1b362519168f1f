#pragma once
// Maps tensor names of Hugging Face models to GGUF's.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/huggingface/hf_config.h"

namespace kvick::io {

// Maps "model.layers.3.self_attn.q_proj.weight" to "blk.3.attn_q.weight". nullopt: the tensor is
// not needed (a buffer, or the output matrix if the embedding replaces it). Error: the architecture
// has no such name, or the layer does not exist. label: where the tensor is, for the message.
base::Result<std::optional<std::string>> map_tensor_name(const HfConfig& config,
                                                         std::string_view name,
                                                         const std::string& label);

}  // namespace kvick::io
