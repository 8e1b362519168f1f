#pragma once
// llama-server's field "lora": adapters by their number in GET /lora-adapters.

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

// "lora": [{"id": 0, "scale": 0.5}]; none: the field is not there.
ApiResult<std::optional<LoraScales>> read_lora(Fields& fields);

// The adapter that such a field selects. of_model: the one that "model" names. Errors: an id that
// does not exist, more than one adapter, both fields.
ApiResult<engine::AdapterUse> choose_adapter(const std::optional<LoraScales>& lora,
                                             const engine::Adapters& adapters,
                                             engine::AdapterUse of_model);

}  // namespace kvick::server
