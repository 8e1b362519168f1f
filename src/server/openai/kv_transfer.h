#pragma once
// The field kv_transfer_params, by which vLLM's router has one server read a prompt and another
// answer it: what the first answers under this name, the router gives to the second as it is. The
// rows go through the store of --kv-store, never from an address that a request names.

#include <optional>

#include "engine/serving/service.h"
#include "server/request/fields.h"

namespace kvick::server {

ApiResult<std::optional<engine::Handover>> read_handover(Fields& fields);
// given: engine::JobOutcome::given.
Json kv_transfer_json(const std::string& given);

}  // namespace kvick::server
