#pragma once
// Turns the engine's refusal or failure of a job into the error that the client gets. prompt_field:
// the name of the request's field that replaces the job's "prompt".

#include <string>

#include "engine/serving/service.h"
#include "server/request/error.h"

namespace kvick::server {

// prompt_field: of the request, in place of the job's "prompt".
ApiError job_error(const engine::Refusal& refusal, const std::string& prompt_field);

}  // namespace kvick::server
