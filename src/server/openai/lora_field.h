#pragma once
// llama-server's field "lora", which selects adapters by their number in GET /lora-adapters.

#include <optional>
#include <vector>

#include "engine/core/adapters.h"
#include "server/request/fields.h"

namespace kvick::server {

struct LoraScale {
  size_t id = 0;
  float scale = 1;
};
using LoraScales = std::vector<LoraScale>;

// Reads "lora": [{"id": 0, "scale": 0.5}]; nothing if the field is missing.
ApiResult<std::optional<LoraScales>> read_lora(Fields& fields);

// Returns the adapter that the field selects. of_model: the adapter that "model" names. Errors: an
// unknown id, more than one adapter, or both fields.
ApiResult<engine::AdapterUse> choose_adapter(const std::optional<LoraScales>& lora,
                                             const engine::Adapters& adapters,
                                             engine::AdapterUse of_model);

}  // namespace kvick::server
