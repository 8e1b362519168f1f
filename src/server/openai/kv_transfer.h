#pragma once
// The field kv_transfer_params, with which vLLM's router lets one server read a prompt and another
// answer it. The router copies the field from the answer of the first server into the request to
// the second. The rows go through the store of --kv-store, never from an address in a request.

#include <optional>

#include "engine/serving/service.h"
#include "server/request/fields.h"

namespace kvick::server {

ApiResult<std::optional<engine::Handover>> read_handover(Fields& fields);
// Returns the field for an answer. given: engine::JobOutcome::given.
Json kv_transfer_json(const std::string& given);

}  // namespace kvick::server
