#pragma once
// Why the engine did not take a request's job, or could not end it, as the client is told.

#include <string>

#include "engine/serving/service.h"
#include "server/request/error.h"

namespace kvick::server {

// prompt_field: of the request, in place of the job's "prompt".
ApiError job_error(const engine::Refusal& refusal, const std::string& prompt_field);

}  // namespace kvick::server
